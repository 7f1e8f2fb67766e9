/*
** nccl.h - stand-in for NCCL: ranks that are threads of one process.
**
** As with NCCL, a call only leaves its work on a stream. The work is done
** when the stream is asked for its state (cudaStreamQuery and Synchronize)
** and the other ranks have come; a rank whose peer never comes stays pending
** until it aborts. A copy is made by the receiver out of the sender's buffer;
** the sender's stream is busy until then. Every call is counted and can be
** made to fail (emu_fail_at).
**
** In one respect it is stricter: work that does not fit its peer's (another
** collective, other sizes) ends the process with a message, where NCCL would
** hang or write out of bounds.
*/
#ifndef EMU_NCCL_H
#define EMU_NCCL_H

#include "cuda_runtime.h"
#include "nccl_control.h"

#define NCCL_UNIQUE_ID_BYTES 128
struct ncclUniqueId { char internal[NCCL_UNIQUE_ID_BYTES]; };
typedef struct ncclComm *ncclComm_t;
enum ncclResult_t {
    ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError,
    ncclInvalidArgument, ncclInvalidUsage, ncclRemoteError, ncclInProgress
};
enum ncclDataType_t { ncclInt8 = 0, ncclUint8 = 1 };
struct ncclConfig_t { int blocking; };
#define NCCL_CONFIG_INITIALIZER {1}

ncclResult_t ncclGetVersion(int *v);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
/* blocking must be 0: without it NCCL waits in the call. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t c);
ncclResult_t ncclCommDestroy(ncclComm_t c);
ncclResult_t ncclCommAbort(ncclComm_t c);
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state);
const char *ncclGetErrorString(ncclResult_t rc);
const char *ncclGetLastError(ncclComm_t c);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void *p, size_t n, ncclDataType_t t, int peer,
                      ncclComm_t c, cudaStream_t s);
ncclResult_t ncclRecv(void *p, size_t n, ncclDataType_t t, int peer,
                      ncclComm_t c, cudaStream_t s);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t n,
                           ncclDataType_t t, ncclComm_t c, cudaStream_t s);

#endif
