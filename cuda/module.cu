/*
** module.cu - what the program sees of this library; see dev/module.h.
*/
#include "nccl_comm.h"

#include <cstdio>
#include <cstring>

extern const struct dev_ops cu_ops;

#define NO_GPU "no usable GPU: %s (nvidia-smi must list one; --device cpu " \
               "and dry need none)"

static int module_count(int *n, struct err *e)
{
    cudaError_t rc = cudaGetDeviceCount(n);

    if (rc != cudaSuccess) {
        cudaGetLastError();
        return err_set(e, ERR_DEVICE, NO_GPU, cudaGetErrorString(rc));
    }
    if (*n < 1) return err_set(e, ERR_DEVICE, NO_GPU, "none is visible");
    return ERR_OK;
}

static int module_info(int gpu, struct cuda_info *out, struct err *e)
{
    cudaDeviceProp p;
    size_t free_bytes, total_bytes;
    int n, can;

    memset(out, 0, sizeof *out);
    CU_TRY(cudaGetDeviceCount(&n));
    if (gpu < 0 || gpu >= n)
        return err_set(e, ERR_DEVICE, "there is no GPU %d: %d are visible "
                       "(see CUDA_VISIBLE_DEVICES)", gpu, n);
    CU_TRY(cudaGetDeviceProperties(&p, gpu));
    CU_TRY(cudaSetDevice(gpu));
    CU_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
    snprintf(out->name, sizeof out->name, "%s", p.name);
    snprintf(out->bus, sizeof out->bus, "%04x:%02x:%02x",
             static_cast<unsigned>(p.pciDomainID),
             static_cast<unsigned>(p.pciBusID),
             static_cast<unsigned>(p.pciDeviceID));
    out->total_bytes = total_bytes;
    out->free_bytes = free_bytes;
    out->major = p.major;
    out->minor = p.minor;
    for (int i = 0; i < n && i < CUDA_INFO_PEERS; i++) {
        if (i == gpu) continue;
        CU_TRY(cudaDeviceCanAccessPeer(&can, gpu, i));
        out->peer[i] = can != 0;
    }
    return ERR_OK;
}

static int module_versions(struct cuda_versions *out, struct err *e)
{
    int major, minor, patch;

    memset(out, 0, sizeof *out);
    CU_TRY(cudaDriverGetVersion(&out->driver));
    CU_TRY(cudaRuntimeGetVersion(&out->runtime));
    if (cublasGetProperty(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS &&
        cublasGetProperty(MINOR_VERSION, &minor) == CUBLAS_STATUS_SUCCESS &&
        cublasGetProperty(PATCH_LEVEL, &patch) == CUBLAS_STATUS_SUCCESS)
        out->cublas = major * 10000 + minor * 100 + patch;
    out->nccl = nccl_version();
    return ERR_OK;
}

extern "C" {
extern const struct cuda_module peakproof_cuda_module;
const struct cuda_module peakproof_cuda_module = {
    PEAKPROOF_VERSION, &cu_ops, module_count, module_info, module_versions,
    nccl_new_id, nccl_comm_new,
};
}
