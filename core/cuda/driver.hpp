// The CUDA driver, found at run time. Types and values are those of cuda.h, declared here because
// core compiles without a CUDA toolkit. They follow the driver's ABI, which does not change.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace symm::cuda {
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

inline CUdeviceptr address_of(const void* pointer) noexcept {
  return reinterpret_cast<uintptr_t>(pointer);
}

struct CUuuid {
  char bytes[16];
};

struct CUmemLocation {
  int type;
  int id;
};
struct CUmemAllocationProp {
  int type;
  int requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};
struct CUlaunchAttribute {
  int id;
  int reserved;
  union {
    int allowed;
    unsigned int cluster[3];
    char bytes[64];
  } value;
};
struct CUlaunchConfig {
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
};

// Version 2.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  void** kernelParams;
  void** extra;
  CUkernel kern;
  CUcontext ctx;
};

// The handle of memory that was not made to be shared by a descriptor (the driver's "legacy" IPC).
struct CUipcMemHandle {
  char reserved[64];
};

struct CUmulticastObjectProp {
  unsigned int numDevices;
  size_t size;
  unsigned long long handleTypes;
  unsigned long long flags;
};

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_OUT_OF_MEMORY = 2;
inline constexpr CUresult CUDA_ERROR_NO_BINARY_FOR_GPU = 209;
inline constexpr CUresult CUDA_ERROR_NOT_SUPPORTED = 801;
inline constexpr CUresult CUDA_ERROR_NOT_FOUND = 500;
inline constexpr CUresult CUDA_ERROR_NOT_READY = 600;
inline constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900;
inline constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906;
inline constexpr CUresult CUDA_ERROR_CAPTURED_EVENT = 907;
inline constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1;
inline constexpr int CU_MEM_LOCATION_TYPE_DEVICE = 1;
inline constexpr int CU_MEM_LOCATION_TYPE_HOST_NUMA = 3;
inline constexpr int CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1;
inline constexpr int CU_MEM_HANDLE_TYPE_FABRIC = 8;
inline constexpr int CU_MEM_ACCESS_FLAGS_PROT_READ = 1;
inline constexpr int CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;
inline constexpr int CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1;
inline constexpr int CU_MULTICAST_GRANULARITY_MINIMUM = 0;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
inline const CUstream CU_STREAM_LEGACY =
    reinterpret_cast<CUstream>(uintptr_t{1});  // NOLINT(performance-no-int-to-ptr)
inline const CUstream CU_STREAM_PER_THREAD =
    reinterpret_cast<CUstream>(uintptr_t{2});  // NOLINT(performance-no-int-to-ptr)
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTALLOC_DEVICEMAP = 2;
inline constexpr unsigned CU_STREAM_WAIT_VALUE_GEQ = 0;
inline constexpr int CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1;
inline constexpr int CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4;
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
inline constexpr int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;
inline constexpr int CU_STREAM_CAPTURE_MODE_RELAXED = 2;
inline constexpr int CU_STREAM_CAPTURE_STATUS_NONE = 0;
inline constexpr int CU_STREAM_CAPTURE_STATUS_ACTIVE = 1;
inline constexpr int CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2;
inline constexpr int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81;
inline constexpr int CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88;
inline constexpr int CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102;
inline constexpr int CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103;
inline constexpr int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110;
inline constexpr int CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124;
inline constexpr int CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128;
inline constexpr int CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132;
inline constexpr int CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86;
inline constexpr int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
inline constexpr int CU_POINTER_ATTRIBUTE_BUFFER_ID = 7;
inline constexpr int CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;
inline constexpr int CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2;
inline constexpr unsigned CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1;
inline constexpr int CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134;
inline constexpr int CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141;
inline constexpr int CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3;

// X(name, version of CUDA that introduced the form that is called here, parameters)
#define SYMM_DRIVER_CALLS(X)                                                                     \
  X(cuInit, 2000, (unsigned))                                                                    \
  X(cuDriverGetVersion, 2020, (int*))                                                            \
  X(cuGetErrorName, 6000, (CUresult, const char**))                                              \
  X(cuGetErrorString, 6000, (CUresult, const char**))                                            \
  X(cuDeviceGetCount, 2000, (int*))                                                              \
  X(cuDeviceGet, 2000, (CUdevice*, int))                                                         \
  X(cuDeviceGetName, 2000, (char*, int, CUdevice))                                               \
  X(cuDeviceGetUuid, 11040, (CUuuid*, CUdevice))                                                 \
  X(cuDeviceTotalMem, 3020, (size_t*, CUdevice))                                                 \
  X(cuDeviceGetAttribute, 2000, (int*, int, CUdevice))                                           \
  X(cuDeviceGetPCIBusId, 4010, (char*, int, CUdevice))                                           \
  X(cuDeviceGetP2PAttribute, 8000, (int*, int, CUdevice, CUdevice))                              \
  X(cuDevicePrimaryCtxRetain, 7000, (CUcontext*, CUdevice))                                      \
  X(cuDevicePrimaryCtxRelease, 11000, (CUdevice))                                                \
  X(cuCtxGetCurrent, 4000, (CUcontext*))                                                         \
  X(cuCtxPushCurrent, 4000, (CUcontext))                                                         \
  X(cuCtxPopCurrent, 4000, (CUcontext*))                                                         \
  X(cuCtxSynchronize, 2000, ())                                                                  \
  X(cuMemGetAllocationGranularity, 10020, (size_t*, const CUmemAllocationProp*, int))            \
  X(cuMemCreate, 10020,                                                                          \
      (CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))   \
  X(cuMemRelease, 10020, (CUmemGenericAllocationHandle))                                         \
  X(cuMemExportToShareableHandle, 10020,                                                         \
      (void*, CUmemGenericAllocationHandle, int, unsigned long long))                            \
  X(cuMemImportFromShareableHandle, 10020, (CUmemGenericAllocationHandle*, void*, int))          \
  X(cuMemAddressReserve, 10020, (CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)) \
  X(cuMemAddressFree, 10020, (CUdeviceptr, size_t))                                              \
  X(cuMemMap, 10020,                                                                             \
      (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))           \
  X(cuMemUnmap, 10020, (CUdeviceptr, size_t))                                                    \
  X(cuMemRetainAllocationHandle, 11000, (CUmemGenericAllocationHandle*, void*))                  \
  X(cuMemGetAllocationPropertiesFromHandle, 10020,                                               \
      (CUmemAllocationProp*, CUmemGenericAllocationHandle))                                      \
  X(cuMemGetAddressRange, 3020, (CUdeviceptr*, size_t*, CUdeviceptr))                            \
  X(cuMemSetAccess, 10020, (CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))                \
  X(cuPointerGetAttribute, 4000, (void*, int, CUdeviceptr))                                      \
  X(cuMemHostAlloc, 2020, (void**, size_t, unsigned))                                            \
  X(cuMemHostGetDevicePointer, 3020, (CUdeviceptr*, void*, unsigned))                            \
  X(cuMemFreeHost, 2000, (void*))                                                                \
  X(cuMemHostRegister, 6050, (void*, size_t, unsigned))                                          \
  X(cuMemHostUnregister, 4000, (void*))                                                          \
  X(cuMemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                           \
  X(cuMemsetD8Async, 3020, (CUdeviceptr, unsigned char, size_t, CUstream))                       \
  X(cuMemsetD16Async, 3020, (CUdeviceptr, unsigned short, size_t, CUstream))                     \
  X(cuMemsetD32Async, 3020, (CUdeviceptr, unsigned, size_t, CUstream))                           \
  X(cuMemsetD2D32Async, 3020, (CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream))         \
  X(cuStreamCreate, 2000, (CUstream*, unsigned))                                                 \
  X(cuStreamDestroy, 4000, (CUstream))                                                           \
  X(cuStreamSynchronize, 2000, (CUstream))                                                       \
  X(cuStreamQuery, 2000, (CUstream))                                                             \
  X(cuStreamWaitEvent, 3020, (CUstream, CUevent, unsigned))                                      \
  X(cuStreamWriteValue64, 11070, (CUstream, CUdeviceptr, uint64_t, unsigned))                    \
  X(cuStreamWaitValue64, 11070, (CUstream, CUdeviceptr, uint64_t, unsigned))                     \
  X(cuStreamGetId, 12000, (CUstream, unsigned long long*))                                       \
  X(cuStreamGetCaptureInfo, 10010, (CUstream, int*, unsigned long long*))                        \
  X(cuThreadExchangeStreamCaptureMode, 10010, (int*))                                            \
  X(cuEventCreate, 2000, (CUevent*, unsigned))                                                   \
  X(cuEventRecord, 2000, (CUevent, CUstream))                                                    \
  X(cuEventQuery, 2000, (CUevent))                                                               \
  X(cuEventDestroy, 4000, (CUevent))                                                             \
  X(cuLibraryLoadData, 12000,                                                                    \
      (CUlibrary*, const void*, int*, void**, unsigned, int*, void**, unsigned))                 \
  X(cuLibraryGetKernel, 12000, (CUkernel*, CUlibrary, const char*))                              \
  X(cuFuncSetAttribute, 9000, (CUfunction, int, int))                                            \
  X(cuKernelGetFunction, 12000, (CUfunction*, CUkernel))                                         \
  X(cuLaunchKernelEx, 11060, (const CUlaunchConfig*, CUfunction, void**, void**))                \
  X(cuGraphCreate, 10000, (CUgraph*, unsigned))                                                  \
  X(cuGraphAddKernelNode, 12000,                                                                 \
      (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS*))       \
  X(cuGraphInstantiateWithFlags, 11040, (CUgraphExec*, CUgraph, unsigned long long))             \
  X(cuGraphLaunch, 10000, (CUgraphExec, CUstream))                                               \
  X(cuGraphExecDestroy, 10000, (CUgraphExec))                                                    \
  X(cuGraphDestroy, 10000, (CUgraph))

// Calls that a driver may lack; then they are null.
#define SYMM_OPTIONAL_DRIVER_CALLS(X)                                                            \
  X(cuCtxRecordEvent, 12050, (CUcontext, CUevent))                                               \
  X(cuEventElapsedTime, 12080, (float*, CUevent, CUevent))                                       \
  X(cuMulticastCreate, 12010, (CUmemGenericAllocationHandle*, const CUmulticastObjectProp*))     \
  X(cuMulticastAddDevice, 12010, (CUmemGenericAllocationHandle, CUdevice))                       \
  X(cuMulticastBindMem, 12010,                                                                   \
      (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,       \
          unsigned long long))                                                                   \
  X(cuMulticastUnbind, 12010, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t))          \
  X(cuMulticastGetGranularity, 12010, (size_t*, const CUmulticastObjectProp*, int))              \
  X(cuMemGetHandleForAddressRange, 11070, (void*, CUdeviceptr, size_t, int, unsigned long long)) \
  X(cuIpcGetMemHandle, 4010, (CUipcMemHandle*, CUdeviceptr))                                     \
  X(cuIpcOpenMemHandle, 11000, (CUdeviceptr*, CUipcMemHandle, unsigned))                         \
  X(cuIpcCloseMemHandle, 4010, (CUdeviceptr))

struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): these are parts of a declaration
#define SYMM_DRIVER_ENTRY(name, version, parameters) CUresult(*name) parameters = nullptr;
  SYMM_DRIVER_CALLS(SYMM_DRIVER_ENTRY)
  SYMM_OPTIONAL_DRIVER_CALLS(SYMM_DRIVER_ENTRY)
#undef SYMM_DRIVER_ENTRY

  // Why an optional call cannot be made, "" if it can: "the CUDA driver has no
  // cuMemGetHandleForAddressRange of CUDA 11.7".
  std::string without(const char* call) const;

  // Throws Error(out_of_memory) or Error(cuda): "cuMemCreate: CUDA_ERROR_INVALID_VALUE (invalid
  // argument): 2097152 bytes". Words that need memory are made by a function, `what`, which runs
  // only if the call has failed: an allocation that fails after a success would lose what it made.
  void require(CUresult result, const char* call, std::string_view what = {}) const {
    if (result != CUDA_SUCCESS) fail(result, call, what);
  }

  template <std::invocable What>
  void require(CUresult result, const char* call, const What& what) const {
    if (result != CUDA_SUCCESS) fail(result, call, what());
  }

  std::string text(CUresult result) const;

 private:
  [[noreturn]] void fail(CUresult result, const char* call, std::string_view what) const;
};

// The loaded driver, initialised. Throws Error(unavailable) with the reason: there is no driver, it
// is too old, or there is no device.
const Driver& driver();
}  // namespace symm::cuda
