millwright fit --help
millwright fit Qwen3-8B --gpus 2xA600 --engine vllm
millwright fit Qwen3-9B --gpus A6000 --engine vllm
millwright fit Qwen3-8B --gpus A6000 --engine vlm
millwright fit Qwen3-8B --gpus A6000 --engine vllm@0.5.0
millwright fit Qwen3-8B --gpus A6000 --engine vllm --set tensor-parallel-size=two
millwright fit Qwen3-8B --gpus A6000 --engine vllm --given weight_gib=3
millwright fit ./missing --gpus A6000 --engine vllm
millwright fit Qwen3-8B
millwright fit Qwen3-14B --gpus 5xH100 --engine vllm@0.19.0 --set tensor-parallel-size=5 --set gpu-memory-utilisation=0.9
millwright fit --from-log missing.log
