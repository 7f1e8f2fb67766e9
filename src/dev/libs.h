/*
** libs.h - libraries that are loaded when they are first needed, and where
** they are looked for. Used by the CUDA module for cuBLAS and NCCL: a machine
** may lack one that a run does not need, or have it in Python's wheels alone.
*/
#ifndef DEV_LIBS_H
#define DEV_LIBS_H

#include "base/err.h"

/* The handle of dlopen for a name such as "libnccl.so.2": where the loader
** looks (LD_LIBRARY_PATH, what was there at link time, the system), below
** CUDA_HOME and /usr/local/cuda, in the nvidia wheels of VIRTUAL_ENV,
** CONDA_PREFIX and of the python3 in PATH. NULL where it is in none of them;
** e (ERR_DEVICE) says so. Never closed. */
void *libs_open(const char *name, struct err *e);

#endif
