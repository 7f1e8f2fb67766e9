/*
** nccl_comm.h - the NCCL communicator, as module.cu hands it out; see
** nccl.cu and dev/module.h. All are ERR_DEVICE in a module built without
** NCCL.
*/
#ifndef CUDA_NCCL_COMM_H
#define CUDA_NCCL_COMM_H

#include "cu.cuh"

extern "C" {
#include "comm/alarm.h"
#include "comm/comm.h"
#include "dev/module.h"
}

extern "C" {
int nccl_version();         /* 0: without NCCL */
int nccl_new_id(unsigned char id[NCCL_ID_BYTES], struct err *e);
int nccl_comm_new(const struct nccl_options *o, struct comm **out,
                  struct err *e);
}

#endif
