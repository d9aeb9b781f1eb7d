"""The System Tuner: search the policy's settings by replays of a trace, and recommend what wins on unseen days.

``tune.tune`` is the front door; ``space`` names the settings, ``scenarios`` what they are tried on. Nothing is imported
here: worker processes need the simulator only, not what trains response models.
"""
