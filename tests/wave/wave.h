/*
** wave.h - what a wave asks of a GPU, counted: the module's host code and the
** program as they are, on a runtime that launches nothing, copies nothing and
** gives out addresses without memory. So a wave of full size runs anywhere,
** in seconds, and its losses mean nothing.
**
** null.cpp is that runtime, meter.cpp knows which operator is running and what
** it must move and multiply, names.cpp which kernel a pointer is.
**
** At the end of the process WAVE_COUNTS (a file) gets lines
**
**   operator  what  times  blocks  bytes  operations  tiles  nanoseconds
**
** separated by tabs, over all ranks. what is "-" for the operator's calls:
** bytes are those of its tensors, each read or written once, operations those
** of its products, tiles those of attention (64 stacked query rows by 64 keys)
** or of the delta rule (64 rows of a head), nanoseconds what the calls take
** at least at the rates below; otherwise what is a kernel, "cublas",
** "grouped" (a product of many groups: one call), "copy", "wait" (the host
** waits for the GPU) or "malloc". An operator "-" is none. Products with an
** adapter's few columns are gemm_lora and group_gemm_lora, those of f32 logit
** gradients gemm_router_bwd; a copy to another type is convert.
*/
#ifndef WAVE_H
#define WAVE_H

#include <cstdint>
#include <string>

struct wave_work { double bytes, operations, tiles; };

/* What an H200 SXM does at most, by its data sheet (NVIDIA, 2023): bytes a
** second of its memory, bf16 operations a second on dense matrices. */
constexpr double WAVE_BYTES = 4.8e12, WAVE_OPERATIONS = 989e12;

/* The running operator of this thread asks for something. kernel: a pointer to
** one, or null where what is its name. */
void wave_count(const char *what, const void *kernel, double blocks);
/* An operator begins (work not null: counted), or ends. */
void wave_operator(const char *name, const struct wave_work *work);

/* attention_forward<bf16,256> */
std::string wave_name(const void *kernel);

#endif
