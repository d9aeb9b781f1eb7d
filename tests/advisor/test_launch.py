"""Launch lines, launchers, shell scripts and batch options: which program runs, on how many GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.advisor.launch.command import read_launch
from lucid_pipelines.advisor.launch.shell import read_line
from lucid_pipelines.advisor.metadata import FieldName
from lucid_pipelines.advisor.source_tree import SourceTree
from tests.support_advisor.repos import TRAINING, read, write


@pytest.mark.parametrize(
    ("command", "gpus", "nodes"),
    [
        ("torchrun --nproc_per_node=8 train.py", 8, 1),
        ("torchrun --nnodes 4 --nproc-per-node 8 --node_rank 0 train.py", 8, 4),
        ("torchrun --nnodes 1:4 --nproc-per-node 8 train.py", 8, None),
        ("torchrun --nnodes 2:2 --nproc-per-node 8 train.py", 8, 2),
        ("python -m torch.distributed.launch --nproc_per_node 2 --use_env train.py --lr 0.1", 2, 1),
        ("accelerate launch --num_processes 16 --num_machines 2 --mixed_precision bf16 train.py", 8, 2),
        ("deepspeed --num_gpus 4 --num_nodes 2 train.py --deepspeed", 4, 2),
        ("deepspeed --include localhost:0,1,5 train.py", 3, 1),
        ("mpirun -np 8 -x LD_LIBRARY_PATH --allow-run-as-root python train.py", 8, 1),
        ("horovodrun -np 16 -H a:8,b:8 python train.py", 8, 2),
        ("srun -N 2 --ntasks-per-node=4 --gres=gpu:a100:4 python -u train.py", 4, 2),
        ("CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node=gpu train.py", 3, 1),
        ("composer -n 8 train.py", 8, 1),
        ("lightning run model --accelerator=cuda --devices=4 --num-nodes=2 train.py --lr 0.1", 4, 2),
        ("fabric run --devices 2 train.py", 2, 1),
        ("fabric run --devices auto train.py", None, 1),
        ("nohup env CUDA_VISIBLE_DEVICES=1 python -W ignore train.py", 1, 1),
        ("python train.py", 1, 1),
        ("torchrun --nproc_per_node=N train.py", None, 1),
        ("torchrun --nproc_per_node=<GPUS> train.py", None, 1),
        ("accelerate launch train.py", None, 1),
        ("deepspeed train.py", None, 1),
        ("deepspeed --hostfile hosts train.py", None, None),
    ],
)
def test_gpus_and_nodes_of_launchers(tmp_path: Path, command: str, gpus: int | None, nodes: int | None) -> None:
    found = read(tmp_path, {"train.py": TRAINING}, command)
    assert (found.value(FieldName.GPUS_PER_NODE), found.value(FieldName.NODES)) == (gpus, nodes)
    if gpus is None:
        assert found.missing[FieldName.GPUS_PER_NODE].reason


@pytest.mark.parametrize("shell", [("bash", "-c"), ("/bin/sh", "-ec"), ("bash", "-e", "-lc")])
@pytest.mark.parametrize(
    ("script", "nodes"),
    [
        ("N=4; torchrun --nnodes $N --nproc-per-node 8 train.py", 4),
        ("srun -N 8 --ntasks-per-node=4 --gres=gpu:4 python train.py", 8),
    ],
)
def test_a_script_in_the_command_is_read_like_one_in_a_file(
    tmp_path: Path, shell: tuple[str, ...], script: str, nodes: int
) -> None:
    write(tmp_path, {"train.py": TRAINING})
    launches = read_launch(SourceTree(tmp_path), [*shell, script], {})
    assert launches[0].target == "train.py"
    assert launches[0].nodes is not None and launches[0].nodes.value == nodes


def test_what_the_submission_asks_for_stands_above_the_launch_line(tmp_path: Path) -> None:
    found = read(tmp_path, {"train.py": TRAINING}, "accelerate launch train.py", gpus=4)
    assert (found.value(FieldName.GPUS_TOTAL), found.value(FieldName.GPUS_PER_NODE)) == (4, 4)


SCRIPT = """
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
#SBATCH --ntasks-per-node=1
set -e
GPUS=${GPUS:-4}
LR=5e-4   # a comment
EPOCHS=$((3 * 4))
ARGS=(
    --lr $LR
    --epochs ${EPOCHS}   # another
)
if [ -z "$RESUME" ]; then EXTRA="--batch-size 64"; else EXTRA="--resume $RESUME"; fi
python prepare_data.py --out data
for seed in 1 2; do echo $seed; done
torchrun --nproc_per_node=$GPUS --nnodes=$SLURM_NNODES train.py \\
    "${ARGS[@]}" $EXTRA "$@" 2>&1 | tee log
"""


def test_a_shell_script_is_followed(tmp_path: Path) -> None:
    files = {"train.py": TRAINING, "scripts/run.sh": SCRIPT, "prepare_data.py": "lr = 9\n"}
    found = read(tmp_path, files, "bash scripts/run.sh --lr 2e-3", env={"GPUS": "2"})
    assert found.value(FieldName.LEARNING_RATE) == 2e-3
    assert found.value(FieldName.ITERATIONS) == 12
    assert found.value(FieldName.BATCH_SIZE_PER_DEVICE) == 64
    assert found.value(FieldName.GPUS_PER_NODE) == 2
    evidence = found.fields[FieldName.ITERATIONS].evidence[0]
    assert (evidence.file, evidence.line) == ("scripts/run.sh", 8)


def test_sbatch_options_of_the_script_give_nodes_and_gpus(tmp_path: Path) -> None:
    script = "#!/bin/bash\n#SBATCH -N 3\n#SBATCH --gpus-per-node=v100:8\nsrun python train.py\n"
    found = read(tmp_path, {"train.py": TRAINING, "job.slurm": script}, "sbatch job.slurm")
    assert (found.value(FieldName.GPUS_PER_NODE), found.value(FieldName.NODES)) == (8, 3)


def test_a_script_that_calls_a_script_and_a_function(tmp_path: Path) -> None:
    files = {
        "a.sh": "export LR=0.5\nfit() { python train.py --lr $LR --epochs $1; }\nsource b.sh\nfit $N\n",
        "b.sh": "N=6\n",
        "train.py": TRAINING,
    }
    found = read(tmp_path, files, "sh a.sh")
    assert (found.value(FieldName.LEARNING_RATE), found.value(FieldName.ITERATIONS)) == (0.5, 6)


def test_options_read_by_a_while_loop(tmp_path: Path) -> None:
    script = """
    while [[ $# -gt 0 ]]; do
      case "$1" in
        --rate) RATE="$2"; shift 2 ;;
        -n|--num) NUM=$2; shift; shift ;;
        *) shift ;;
      esac
    done
    python train.py --lr $RATE --epochs $NUM
    """
    found = read(tmp_path, {"train.py": TRAINING, "run.sh": script}, "./run.sh --num 9 --rate 0.75 --other")
    assert (found.value(FieldName.LEARNING_RATE), found.value(FieldName.ITERATIONS)) == (0.75, 9)


def test_the_training_is_chosen_among_the_commands_of_a_script(tmp_path: Path) -> None:
    script = "python eval.py --lr 9\npip install x\npython train.py --lr 0.5\npython test.py --lr 8\n"
    files = {"train.py": TRAINING, "eval.py": TRAINING, "test.py": TRAINING, "go.sh": script}
    assert read(tmp_path, files, "bash go.sh").value(FieldName.LEARNING_RATE) == 0.5


def test_the_entry_is_found_by_the_options_that_it_declares(tmp_path: Path) -> None:
    other = TRAINING.replace("--lr", "--rate").replace("args.lr", "args.rate")
    files = {"vision/main.py": TRAINING, "text/main.py": other, "audio/main.py": "print(1)\n"}
    found = read(tmp_path, files, "python main.py --rate 0.5")
    assert found.report.entry == "text/main.py"
    assert found.value(FieldName.LEARNING_RATE) == 0.5
    assert any("alone does not name" in note for note in found.report.notes)


def test_an_entry_that_nothing_tells_apart_is_not_guessed(tmp_path: Path) -> None:
    files = {"a/main.py": TRAINING, "b/main.py": TRAINING.replace("0.1", "0.9")}
    found = read(tmp_path, files, "python main.py")
    assert found.report.entry is None
    assert found.value(FieldName.LEARNING_RATE) is None


def test_a_program_that_starts_the_training_in_a_subprocess(tmp_path: Path) -> None:
    launcher = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'torch.distributed.run', "
        "'--nproc_per_node', '4', 'train.py'] + sys.argv[1:], check=True)\n"
    )
    found = read(tmp_path, {"train.py": TRAINING, "start.py": launcher}, "python start.py --lr 0.5")
    assert (found.value(FieldName.LEARNING_RATE), found.value(FieldName.GPUS_PER_NODE)) == (0.5, 4)


def test_options_of_a_compiled_program_are_read_from_its_usage_text(tmp_path: Path) -> None:
    source = """
    int main(int argc, char **argv) {
        fprintf(stderr, "  -b <int>    (per-GPU, micro) batch size (default = 4)\\n");
        fprintf(stderr, "  -l <float>  learning rate (default = 3e-4f)\\n");
        fprintf(stderr, "  -s <int>    sample every how many steps (default = 20)\\n");
    }
    """
    found = read(tmp_path, {"train.cu": source}, "mpirun -np 4 ./traincu -b 8 -l 0.002 -s 100")
    assert found.value(FieldName.LEARNING_RATE) == 0.002
    assert found.value(FieldName.BATCH_SIZE) == 32
    assert found.value(FieldName.ITERATIONS) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=1; prog $A ${B:-2} ${A:+x} '$A' \"$A b\"", ["prog", "1", "2", "x", "$A", "1 b"]),
        ("X=a.tar.gz; prog ${X%.gz} ${X%%.*} ${X##*.} ${X/a/b}", ["prog", "a.tar", "a", "gz", "b.tar.gz"]),
        ("N=3; prog $((N * 2 + 1)) ${#N}", ["prog", "7", "1"]),
        ("A=(1 '2 3'); A+=(4); prog ${A[@]} ${#A[@]} ${A[1]}", ["prog", "1", "2 3", "4", "3", "2", "3"]),
        ("CUDA_VISIBLE_DEVICES=0,1,2; prog $(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l)", ["prog", "3"]),
        ("if [ 2 -gt 1 ] && [[ abc == a* ]]; then prog yes; else prog no; fi", ["prog", "yes"]),
        ("prog a\\\n b # c", ["prog", "a", "b"]),
        ('A="-x 1"; B="-y 2"; ALL="$A $B  ${A}"; prog $ALL', ["prog", "-x", "1", "-y", "2", "-x", "1"]),
        ('RUN="prog --data $UNSET"; $RUN --lr 1', ["prog", "--data", "${UNSET}", "--lr", "1"]),
        ("prog --data $DATA_DIR $EXTRA_ARGS", ["prog", "--data", "${DATA_DIR}"]),
    ],
)
def test_shell_expansion(tmp_path: Path, text: str, words: list[str]) -> None:
    commands = read_line(SourceTree(tmp_path), text, {}, "")
    assert [word.value for word in commands[-1].words] == words


@given(value=st.text(alphabet="abcXYZ019._/-=", min_size=1, max_size=12))
def test_quoted_words_are_kept_as_they_are(value: str) -> None:
    tree = SourceTree(Path(__file__).parent)
    commands = read_line(tree, f"V='{value}'\nprog \"$V\" '{value}' {value}", {}, "")
    assert [word.value for word in commands[-1].words[1:]] == [value] * 3


def test_a_script_with_blanks_to_fill_in_keeps_its_other_lines(tmp_path: Path) -> None:
    script = 'DATA=<path to data>\nCKPT=<your path>\n\nARGS="--nproc_per_node 8"\n'
    files = {"train.py": TRAINING, "run.sh": script + "torchrun $ARGS train.py --data $DATA <in.txt >out.txt\n"}
    found = read(tmp_path, files, "bash run.sh")
    assert found.value(FieldName.GPUS_PER_NODE) == 8


def test_options_in_an_unknown_variable_leave_no_default(tmp_path: Path) -> None:
    files = {"train.py": TRAINING, "run.sh": "A=$(make_args)\ntorchrun $A train.py\n"}
    found = read(tmp_path, files, "bash run.sh")
    assert found.value(FieldName.GPUS_PER_NODE) is None
    assert found.value(FieldName.NODES) is None


def test_a_placeholder_is_no_redirect(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    launches = read_launch(SourceTree(tmp_path), ["python train.py --data <your data> --lr 0.5"], {})
    assert [word.value for word in launches[0].args] == ["--data", "<your_data>", "--lr", "0.5"]
