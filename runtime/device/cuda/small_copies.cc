// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/small_copies.h"

#include <utility>

namespace plimsoll::device::cuda {

// A thread has a piece of 16 bytes; the last one, where it is shorter, is copied byte by byte.
const std::string& SmallCopies::text() {
  static const auto* const kText = new std::string(R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry plimsoll_copy(.param .u64 to, .param .u64 from, .param .u64 bytes)
{
  .reg .pred %p<3>;
  .reg .b16 %h<1>;
  .reg .b32 %r<8>;
  .reg .b64 %d<8>;
  ld.param.u64 %d0, [to];
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [bytes];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  mul.wide.u32 %d3, %r3, 16;
  setp.ge.u64 %p0, %d3, %d2;
  @%p0 bra done;
  add.u64 %d0, %d0, %d3;
  add.u64 %d1, %d1, %d3;
  sub.u64 %d4, %d2, %d3;
  setp.lt.u64 %p1, %d4, 16;
  @%p1 bra short;
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1];
  st.global.v4.u32 [%d0], {%r4, %r5, %r6, %r7};
  bra done;
short:
  ld.global.u8 %h0, [%d1];
  st.global.u8 [%d0], %h0;
  add.u64 %d0, %d0, 1;
  add.u64 %d1, %d1, 1;
  sub.u64 %d4, %d4, 1;
  setp.ne.u64 %p2, %d4, 0;
  @%p2 bra short;
done:
  ret;
}
)");
  return *kText;
}

Result<std::shared_ptr<const SmallCopies>> SmallCopies::create(
    std::shared_ptr<const Context> context) {
  auto made = std::make_shared<SmallCopies>();
  PLIMSOLL_ASSIGN_OR_RETURN(made->module_, Module::load(std::move(context), text()));
  PLIMSOLL_ASSIGN_OR_RETURN(made->function_, made->module_->function(kEntry, 0));
  return std::shared_ptr<const SmallCopies>(std::move(made));
}

}  // namespace plimsoll::device::cuda
