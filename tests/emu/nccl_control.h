/*
** nccl_control.h - what tests, C or C++, tell the stand-in of NCCL.
*/
#ifndef EMU_NCCL_CONTROL_H
#define EMU_NCCL_CONTROL_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ranks whose peer aborts get ncclRemoteError as their state, as over a
** network; otherwise (the default) they stay pending, as within a host. */
void emu_nccl_remote_errors(bool on);
/* Communicators that were made and neither destroyed nor aborted. */
int emu_nccl_open(void);

#ifdef __cplusplus
}
#endif

#endif
