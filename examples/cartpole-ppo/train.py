"""Proximal policy optimisation on a simulated cart and pole, in numpy."""

from __future__ import annotations

import argparse
import time

import numpy as np
import runtime

ENVS = 8
EPISODE_STEPS = 200
GAMMA, LAMBDA, CLIP = 0.98, 0.95, 0.2
FORCE_N, GRAVITY, CART_KG, POLE_KG, HALF_POLE_M, TICK_S = 10.0, 9.8, 1.0, 0.1, 0.5, 0.02


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", "--epochs", type=int, default=24)
    parser.add_argument("--n-steps", type=int, default=64, help="steps of each environment per iteration")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="time over which the iterations are spread")
    return parser.parse_args()


def push(state: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One tick of the physics for all environments: (envs, 4) position, speed, angle, angular speed."""
    x, speed, angle, turn = state.T
    force = np.where(right == 1, FORCE_N, -FORCE_N)
    mass = CART_KG + POLE_KG
    swing = (force + POLE_KG * HALF_POLE_M * turn**2 * np.sin(angle)) / mass
    pull = GRAVITY * np.sin(angle) - np.cos(angle) * swing
    turn_rate = pull / (HALF_POLE_M * (4 / 3 - POLE_KG * np.cos(angle) ** 2 / mass))
    push_rate = swing - POLE_KG * HALF_POLE_M * turn_rate * np.cos(angle) / mass
    return np.stack(
        [x + TICK_S * speed, speed + TICK_S * push_rate, angle + TICK_S * turn, turn + TICK_S * turn_rate], 1
    )


def forward(model: runtime.Arrays, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hidden activations, chance of each action, value."""
    hidden = np.tanh(states @ model["in"] + model["in.bias"])
    logits = hidden @ model["act"]
    chances = np.exp(logits - logits.max(1, keepdims=True))
    return hidden, chances / chances.sum(1, keepdims=True), (hidden @ model["value"])[:, 0]


class Rollout:
    """Experience of all environments, and the lengths of the episodes that ended meanwhile."""

    def __init__(self, rng: np.random.Generator, model: runtime.Arrays, state: np.ndarray, age: np.ndarray, steps: int):
        rows: list[tuple[np.ndarray, ...]] = []
        self.lengths: list[int] = []
        for _ in range(steps):
            _, chances, value = forward(model, state)
            action = (rng.random(ENVS) < chances[:, 1]).astype(int)
            following = push(state, action)
            age = age + 1
            fallen = (np.abs(following[:, 0]) > 2.4) | (np.abs(following[:, 2]) > 0.21)
            ended = fallen | (age >= EPISODE_STEPS)
            rows.append((state, action, chances[np.arange(ENVS), action], value, ended))
            self.lengths.extend(age[ended].tolist())
            following[ended] = rng.uniform(-0.05, 0.05, (int(ended.sum()), 4))
            age[ended] = 0
            state = following
        self.state, self.age = state, age
        states, actions, chances, values, ended = (np.stack(column) for column in zip(*rows, strict=True))
        advantage = np.zeros_like(values)
        running = np.zeros(ENVS)
        following_value = forward(model, state)[2]
        for index in range(steps - 1, -1, -1):
            alive = 1 - ended[index]
            delta = 1 + GAMMA * following_value * alive - values[index]
            running = delta + GAMMA * LAMBDA * alive * running
            advantage[index] = running
            following_value = values[index]
        self.states, self.actions, self.chances = states.reshape(-1, 4), actions.reshape(-1), chances.reshape(-1)
        self.returns = (advantage + values).reshape(-1)
        self.advantage = ((advantage - advantage.mean()) / (advantage.std() + 1e-8)).reshape(-1)


def ppo_step(model: runtime.Arrays, rollout: Rollout, rows: np.ndarray, lr: float) -> tuple[float, float, float]:
    """One clipped update in place; returns policy loss, value loss and entropy."""
    states, actions = rollout.states[rows], rollout.actions[rows]
    advantage, count = rollout.advantage[rows], len(rows)
    hidden, chances, value = forward(model, states)
    chosen = chances[np.arange(count), actions]
    ratio = chosen / rollout.chances[rows]
    clipped = np.clip(ratio, 1 - CLIP, 1 + CLIP)
    counts = (ratio * advantage <= clipped * advantage).astype(float)
    one_hot = np.eye(2)[actions]
    grad_logits = -(counts * advantage * ratio)[:, None] * (one_hot - chances) / count
    error = value - rollout.returns[rows]
    grad_value = 0.01 * error / count
    grad_hidden = (grad_logits @ model["act"].T + grad_value[:, None] * model["value"].T) * (1 - hidden**2)
    updates = {
        "act": hidden.T @ grad_logits, "value": hidden.T @ grad_value[:, None],
        "in": states.T @ grad_hidden, "in.bias": grad_hidden.sum(0),
    }  # fmt: skip
    for name, gradient in updates.items():
        model[name] -= lr * 10 * gradient
    entropy = float(-(chances * np.log(chances + 1e-9)).sum(1).mean())
    return float(-np.minimum(ratio * advantage, clipped * advantage).mean()), float((error**2).mean()), entropy


def show(groups: dict[str, dict[str, str]]) -> None:
    """A boxed table in the manner of reinforcement-learning libraries."""
    line = "-" * 39
    print(line)
    for group, rows in groups.items():
        print(f"| {group + '/':<23}| {'':<11}|")
        for name, value in rows.items():
            print(f"|    {name:<20}| {value:<11}|")
    print(line, flush=True)


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    model = {
        "in": setup.normal(0, 0.5, (4, args.hidden)),
        "in.bias": np.zeros(args.hidden),
        "act": setup.normal(0, 0.05, (args.hidden, 2)),
        "value": setup.normal(0, 0.05, (args.hidden, 1)),
    }
    state, age, start = setup.uniform(-0.05, 0.05, (ENVS, 4)), np.zeros(ENVS, int), 0
    if stored := runtime.load_checkpoint():
        start, arrays = stored
        model = {name: arrays[name] for name in model}
        state, age = arrays["env.state"], arrays["env.age"]
        print(f"Loaded policy of iteration {start}", flush=True)
    print(f"Using {ENVS} environments on the cpu device", flush=True)
    runtime.declare_gpu_load(gpu_util_pct=18.0, memory_util_pct=6.0, memory_used_mib=1_450.0)

    pace = runtime.Pace(args.seconds, args.iterations - start)
    began_s = time.monotonic()
    for iteration in range(start, args.iterations):
        rng = np.random.default_rng((args.seed, iteration))
        rollout = Rollout(rng, model, state, age, args.n_steps)
        state, age = rollout.state, rollout.age
        policy_loss = value_loss = entropy = float("nan")
        for _ in range(4):
            for rows in np.array_split(rng.permutation(len(rollout.actions)), 4):
                policy_loss, value_loss, entropy = ppo_step(model, rollout, rows, args.lr)
        pace.step()
        timesteps = (iteration + 1) * args.n_steps * ENVS
        elapsed_s = time.monotonic() - began_s
        if iteration % 2 == 1 or iteration == args.iterations - 1:
            mean_length = f"{np.mean(rollout.lengths):.1f}" if rollout.lengths else "nan"
            show(
                {
                    "rollout": {"ep_len_mean": mean_length, "ep_rew_mean": mean_length},
                    "time": {
                        "fps": f"{(timesteps - start * args.n_steps * ENVS) / max(elapsed_s, 1e-6):.0f}",
                        "iterations": str(iteration + 1),
                        "time_elapsed": f"{elapsed_s:.0f}",
                        "total_timesteps": str(timesteps),
                    },
                    "train": {
                        "entropy_loss": f"{-entropy:.3g}",
                        "learning_rate": f"{args.lr:g}",
                        "policy_gradient_loss": f"{policy_loss:.3g}",
                        "value_loss": f"{value_loss:.3g}",
                    },
                }
            )
        if (iteration + 1) % 6 == 0 or iteration == args.iterations - 1:
            runtime.save_checkpoint(iteration + 1, model | {"env.state": state, "env.age": age})


if __name__ == "__main__":
    main()
