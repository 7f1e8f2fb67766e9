# What works on this machine.

$ peakproof doctor
>* data     ok  /*
>* gnuplot  *
> dry      ok  full-size cases anywhere; peaks are simulated
>* cpu      *
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
