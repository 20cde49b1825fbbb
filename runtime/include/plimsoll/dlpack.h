/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of other libraries in place, and buffers for them, by the structs of DLPack. Of these only
   the tags are named here, so that a program may include DLPack's own header before or after. */
#ifndef PLIMSOLL_DLPACK_H_
#define PLIMSOLL_DLPACK_H_

#include <plimsoll/plimsoll.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* A buffer of a tensor in host memory (kDLCPU, or pinned host memory) or, of a context on a GPU, in
   that GPU's memory (kDLCUDA), after all that was given the GPU so far. On success the library owns
   the tensor: it calls its deleter, if there is one, once, on any thread, when nothing uses the
   memory any more. On failure it stays the caller's.
   A dense tensor at a multiple of PLM_BUFFER_ALIGNMENT, in the device's memory, is used in place
   (not of bools on a GPU), and must not be written to meanwhile; its bytes count under the
   context's limit. Any other, with strides or elsewhere, is copied, and its deleter called before
   this returns. INVALID_ARGUMENT: a NULL pointer, more than one lane, more than PLM_MAX_RANK dims,
   sizes below zero or too large, strides or an offset that leave the address space, a version
   above 1. UNIMPLEMENTED: another device, or a type that there is no dtype of. */
PLM_EXPORT plm_status* plm_buffer_from_dlpack(plm_context* context, struct DLManagedTensor* tensor,
                                              plm_buffer** out);
PLM_EXPORT plm_status* plm_buffer_from_dlpack_versioned(plm_context* context,
                                                        struct DLManagedTensorVersioned* tensor,
                                                        plm_buffer** out);

/* The buffer's memory as a tensor, which waits while the buffer is pending. Whoever gets it calls
   its deleter once, on any thread; until then the bytes stay where they are and count under the
   limit, whatever becomes of the buffer: a run that it is donated to takes a copy. They are the
   buffer's, and must be read only, which the versioned struct says by its flags. `context` is the
   buffer's. Of a GPU the tensor is kDLCUDA: its value is there, so no stream has to wait for it,
   and the deleter waits for all that was given the GPU so far. UNIMPLEMENTED: dtypes that DLPack
   has no code of or that lie packed. */
PLM_EXPORT plm_status* plm_buffer_to_dlpack(plm_context* context, plm_buffer* buffer,
                                            struct DLManagedTensor** out);
PLM_EXPORT plm_status* plm_buffer_to_dlpack_versioned(plm_context* context, plm_buffer* buffer,
                                                      struct DLManagedTensorVersioned** out);

#ifdef __cplusplus
}
#endif

#endif /* PLIMSOLL_DLPACK_H_ */
