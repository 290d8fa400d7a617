millwright runs
millwright runs --json
millwright show
millwright show 2026
millwright evidence
millwright unlock
millwright unlock gpu1
millwright runs --state /proc/nowhere
