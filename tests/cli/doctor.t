# What works on this machine.

$ peakproof doctor
>* data     ok  /*
>* gnuplot  *
> dry      ok  full-size cases anywhere; peaks are simulated
>* cpu      ok  small models with real numbers; peaks are measured; OpenBLAS *
>* cuda     *
>...

$ peakproof doctor --json >a; head -n 4 a
> {
>   "format": 1,
>* *"version": *
>   "findings": [

$ PEAKPROOF_DATA=/nonexistent peakproof doctor >a
! peakproof: doctor: PEAKPROOF_DATA: /nonexistent has no folder models (unset it, or name the data folder)
= 1

$ PEAKPROOF_DATA=$TOP/lua peakproof doctor >a; grep -c "^data     ok  $TOP/lua" a
> 1

# A folder of weights: what it holds, what is missing.

$ peakproof doctor --weights $TOP/tests/golden/hf/folders/qwen3_5_moe
> weights  ok  qwen3_5_moe, 2 layers, 92 tensors: 17,456 bytes of BF16, 384 bytes of others
> beside   ok  21 tensors that the model does not use: model.visual... (21)

$ mkdir part; cp $TOP/tests/golden/hf/folders/qwen3_moe/* part; sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 3/; s/"head_dim": [0-9]*/"head_dim": 16/' part/config.json; peakproof doctor --weights part
> weights  -   qwen3_moe, 3 layers, 33 tensors: 4,808 bytes of BF16
>* trouble  -   part/model.safetensors: *self_attn.q_proj.weight has shape *, the model needs *
>...
!* peakproof: doctor: part: does not load: *
= 3
$ peakproof doctor --weights part --json 2>err | grep -c '"ok": false'
> 7
$ rm part/config.json; peakproof doctor --weights part
!* peakproof: part/config.json: No such file or directory
= 3
