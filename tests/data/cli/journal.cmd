millwright runs
millwright runs --json
millwright show
millwright show 2026
millwright evidence
millwright unlock
millwright unlock gpu1
millwright runs --state /proc/nowhere
millwright runs --state "$HOME/wrong"
millwright runs --state "$HOME"; ls "$HOME"
MILLWRIGHT_STATE=/nowhere millwright show
