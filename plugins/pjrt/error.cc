// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/error.h"

#include "plugins/pjrt/api.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

void table_destroy(Error* error) { destroy(error); }
void table_message(const Error* error, const char** message, std::size_t* message_size) {
  *message = error->message.c_str();
  *message_size = error->message.size();
}
Code table_code(const Error* error) { return error->code; }
void table_payload(const Error*, PayloadVisitor, void*) {}

constexpr ErrorTable kTable = {sizeof(ErrorTable), sizeof(Error), nullptr,      table_destroy,
                               table_message,      table_code,    table_payload};

}  // namespace

Error* make_error(Code code, std::string_view message) {
  return new Error{&kTable, code, std::string(message)};
}

Error* from_borrowed(const plm_status* status) {
  if (status == nullptr) return nullptr;
  return make_error(static_cast<Code>(plm_status_code(status)), plm_status_message(status));
}

Error* from_status(plm_status* status) {
  Error* const made = from_borrowed(status);
  plm_status_free(status);
  return made;
}

Error* copy_of(const Error* error) {
  return error == nullptr ? nullptr : make_error(error->code, error->message);
}

void destroy(Error* error) { delete error; }

void Error_Destroy(Error_Destroy_Args* args) { destroy(args->error); }

void Error_Message(Error_Message_Args* args) {
  table_message(args->error, &args->message, &args->message_size);
}

Error* Error_GetCode(Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

// Ours have no payloads.
Error* Error_ForEachPayload(Error_ForEachPayload_Args*) { return nullptr; }

}  // namespace plimsoll::pjrt
