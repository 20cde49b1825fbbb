// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/infer_request.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kMostTensors = 256;
constexpr std::size_t kMostDims = PLM_MAX_RANK;

// Bytes of an array; nothing where a dim is negative or the product too large.
std::optional<std::size_t> byte_size(const std::vector<std::int64_t>& shape, std::size_t element) {
  std::size_t bytes = element;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    const auto size = static_cast<std::size_t>(dim);
    if (size != 0 && bytes > std::numeric_limits<std::int64_t>::max() / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

// What the JSON says of an input, beside the input itself.
struct Described {
  InferInput input;
  std::optional<std::uint64_t> binary_bytes;
  bool has_name = false, has_type = false, has_shape = false, has_data = false;
  std::size_t stored = 0;  // bytes of elements read so far
  bool stores = false;     // type and shape stood before the data
};

// Takes the events of the parser, which keeps no tree: elements go from the text to their places.
// Where data stand before their datatype or shape, they are skipped, and `again()` asks for a
// second pass, which knows them.
class Reader {
 public:
  using json = nlohmann::json;

  explicit Reader(std::string_view text) : text_bytes_(text.size()) {}

  bool again() const { return skipped_data_; }
  void begin_again() {
    known_ = std::move(inputs_);
    inputs_.clear();
    request_ = {};
    stack_.clear();
    skipped_data_ = false;
  }
  InferRequest& request() { return request_; }
  std::vector<Described>& inputs() { return inputs_; }

  // Events.
  bool null() {
    if (where() == Where::data) throw bad_request(of_input() + "data has a null");
    return true;
  }
  bool boolean(bool value) {
    if (where() == Where::request_parameters && key_ == "binary_data_output") {
      request_.binary_outputs = value;
    } else if (where() == Where::output_parameters && key_ == "binary_data") {
      request_.outputs.back().binary = value;
    } else {
      JsonNumber number;
      number.kind = JsonNumber::Kind::boolean;
      number.natural = value ? 1 : 0;
      take(number);
    }
    return true;
  }
  bool number_integer(std::int64_t value) {
    JsonNumber number;
    number.kind = JsonNumber::Kind::negative;
    number.negative = value;
    take(number);
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    JsonNumber number;
    number.natural = value;
    take(number);
    return true;
  }
  bool number_float(double value, const std::string& text) {
    JsonNumber number;
    number.kind = JsonNumber::Kind::real;
    number.real = value;
    number.text = text;
    take(number);
    return true;
  }
  bool string(std::string& value) {
    switch (where()) {
      case Where::request:
        if (key_ == "id") request_.id = value;
        if (key_ == "inputs" || key_ == "outputs") throw bad_request("'" + key_ + "' is no list");
        break;
      case Where::input: {
        Described& described = inputs_.back();
        if (key_ == "name") {
          once(described.has_name);
          described.input.name = value;
        } else if (key_ == "datatype") {
          once(described.has_type);
          described.input.type = find_type(value);
          if (described.input.type == nullptr) {
            throw bad_request(of_input() + "datatype " + in_quotes(value) + " is not known here");
          }
        }
        break;
      }
      case Where::output:
        if (key_ == "name") request_.outputs.back().name = value;
        break;
      case Where::data:
        throw bad_request(of_input() + "data has a string");
      case Where::root:
        throw bad_request("the body is no JSON object");
      default:
        break;
    }
    return true;
  }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) {
    switch (where()) {
      case Where::root:
        return push(Where::request);
      case Where::request:
        return push(key_ == "parameters" ? Where::request_parameters : other());
      case Where::inputs:
        if (inputs_.size() == kMostTensors) throw bad_request("more than 256 inputs");
        inputs_.emplace_back();
        // In a second pass, from the first: the order of the keys no longer matters.
        if (inputs_.size() <= known_.size()) {
          inputs_.back().input.type = known_[inputs_.size() - 1].input.type;
          inputs_.back().input.shape = known_[inputs_.size() - 1].input.shape;
        }
        return push(Where::input);
      case Where::input:
        return push(key_ == "parameters" ? Where::input_parameters : other());
      case Where::outputs:
        if (request_.outputs.size() == kMostTensors) throw bad_request("more than 256 outputs");
        request_.outputs.emplace_back();
        return push(Where::output);
      case Where::output:
        return push(key_ == "parameters" ? Where::output_parameters : Where::other);
      case Where::data:
        throw bad_request(of_input() + "data has an object");
      case Where::shape:
        throw bad_request(of_input() + "shape has an object");
      default:
        return push(Where::other);
    }
  }
  bool start_array(std::size_t) {
    switch (where()) {
      case Where::root:
        throw bad_request("the body is no JSON object");
      case Where::request:
        if (key_ == "inputs") return push(Where::inputs);
        if (key_ == "outputs") return push(Where::outputs);
        return push(Where::other);
      case Where::input:
        if (key_ == "shape") {
          once(inputs_.back().has_shape);
          inputs_.back().input.shape.clear();
          return push(Where::shape);
        }
        if (key_ == "data") {
          begin_data(inputs_.back());
          return push(Where::data);
        }
        return push(Where::other);
      case Where::data:  // nested as the shape, or otherwise: row-major all the same
        return push(Where::data);
      case Where::shape:
        throw bad_request(of_input() + "shape has a list");
      case Where::inputs:
      case Where::outputs:
        throw bad_request("a list where an object describes a tensor");
      default:
        return push(Where::other);
    }
  }
  bool key(std::string& name) {
    key_ = name;
    refuse_extensions();
    return true;
  }
  bool end_object() { return pop(); }
  bool end_array() { return pop(); }
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) {
    std::string what = error.what();
    // After "[json.exception.parse_error.101] parse error at line 1, column 2: ".
    if (const auto colon = what.find(": "); colon != std::string::npos) what.erase(0, colon + 2);
    constexpr std::size_t kLongest = 200;
    if (what.size() > kLongest) what.resize(kLongest);
    throw bad_request("JSON, byte " + std::to_string(position) + ": " + what);
  }

 private:
  enum class Where : std::uint8_t {
    root,
    request,
    request_parameters,
    inputs,
    input,
    input_parameters,
    shape,
    data,
    outputs,
    output,
    output_parameters,
    other,  // what this server has no use for
  };

  Where where() const { return stack_.empty() ? Where::root : stack_.back(); }
  Where other() const {
    for (const char* list : {"inputs", "outputs", "shape", "data"}) {
      if (key_ == list) throw bad_request("'" + key_ + "' is an object, must be a list");
    }
    return Where::other;
  }
  bool push(Where where) {
    if (stack_.size() == kDeepest) throw bad_request("JSON nested deeper than 16 levels");
    stack_.push_back(where);
    return true;
  }
  bool pop() {
    stack_.pop_back();
    return true;
  }
  // Parameters that ask for what this server has not: without it the answer would be another one
  // than the client takes it for.
  void refuse_extensions() const {
    const char* extension = nullptr;
    switch (where()) {
      case Where::request_parameters:
        if (key_.starts_with("sequence_")) extension = "sequence";
        break;
      case Where::input_parameters:
      case Where::output_parameters:
        if (key_.starts_with("shared_memory_")) extension = "shared memory";
        if (key_ == "classification") extension = "classification";
        break;
      default:
        break;
    }
    if (extension != nullptr) {
      throw bad_request("parameter '" + key_ + "': this server has no " + extension + " extension");
    }
  }
  void once(bool& seen) const {
    if (seen) throw bad_request(of_input() + "'" + key_ + "' stands there twice");
    seen = true;
  }
  std::string of_input() const {
    const std::string& name = inputs_.back().input.name;
    return "input " +
           (name.empty() ? "number " + std::to_string(inputs_.size() - 1) : in_quotes(name)) + ": ";
  }

  void begin_data(Described& described) {
    once(described.has_data);
    const bool had_shape = inputs_.size() <= known_.size() && known_[inputs_.size() - 1].has_shape;
    if (described.input.type == nullptr || !(described.has_shape || had_shape)) {
      skipped_data_ = true;
      return;
    }
    if (!described.input.type->in_json) {
      throw bad_request(of_input() + "elements of " + std::string(described.input.type->name) +
                        " have no form in JSON (send them as binary data)");
    }
    const auto bytes = byte_size(described.input.shape, described.input.type->bytes);
    // An element takes two bytes of the text at least.
    if (!bytes || *bytes / described.input.type->bytes > text_bytes_ / 2) {
      throw bad_request(of_input() + "shape " + shape_text(described.input.shape) +
                        " has more elements than the body");
    }
    described.stores = true;
    described.input.decoded.resize(*bytes);
  }

  void take(const JsonNumber& number) {
    switch (where()) {
      case Where::root:
        throw bad_request("the body is no JSON object");
      case Where::data: {
        Described& described = inputs_.back();
        if (!described.stores) return;
        const std::size_t element = described.input.type->bytes;
        if (described.stored == described.input.decoded.size()) {
          throw bad_request(of_input() + "data has more elements than shape " +
                            shape_text(described.input.shape));
        }
        if (!store(*described.input.type, number,
                   described.input.decoded.data() + described.stored)) {
          throw bad_request(of_input() + "element " + std::to_string(described.stored / element) +
                            " of data is no " + std::string(described.input.type->name));
        }
        described.stored += element;
        return;
      }
      case Where::shape: {
        std::vector<std::int64_t>& shape = inputs_.back().input.shape;
        if (number.kind != JsonNumber::Kind::natural ||
            number.natural > std::numeric_limits<std::int64_t>::max()) {
          throw bad_request(of_input() + "a dim of shape is no natural number");
        }
        if (shape.size() == kMostDims) {
          throw bad_request(of_input() + "shape has more than 10 dims");
        }
        shape.push_back(static_cast<std::int64_t>(number.natural));
        return;
      }
      case Where::input_parameters:
        if (key_ != "binary_data_size") return;
        if (number.kind != JsonNumber::Kind::natural) {
          throw bad_request(of_input() + "binary_data_size is no natural number");
        }
        inputs_.back().binary_bytes = number.natural;
        return;
      case Where::inputs:
      case Where::outputs:
        throw bad_request("a number where an object describes a tensor");
      default:
        return;
    }
  }

  std::size_t text_bytes_;
  InferRequest request_;
  std::vector<Described> inputs_, known_;
  std::vector<Where> stack_;
  std::string key_;
  bool skipped_data_ = false;
};

// Gives the input its elements; `binary` loses what they took of it.
void find_elements(Described& described, std::string_view& binary) {
  InferInput& input = described.input;
  const std::string of = "input " + in_quotes(input.name) + ": ";
  if (!described.has_name || input.name.empty()) throw bad_request("an input has no name");
  if (!described.has_type) throw bad_request(of + "no datatype");
  if (!described.has_shape) throw bad_request(of + "no shape");
  const auto bytes = byte_size(input.shape, input.type->bytes);
  const std::string array = std::string(input.type->name) + shape_text(input.shape);
  if (!bytes) throw bad_request(of + array + " is too large");
  if (described.binary_bytes) {
    if (described.has_data) throw bad_request(of + "both data and binary_data_size");
    if (*described.binary_bytes != *bytes) {
      throw bad_request(of + "binary_data_size is " + std::to_string(*described.binary_bytes) +
                        ", " + array + " takes " + std::to_string(*bytes) + " bytes");
    }
    if (*bytes > binary.size()) {
      throw bad_request(of + "the body ends " + std::to_string(*bytes - binary.size()) +
                        " bytes before the data");
    }
    input.data = reinterpret_cast<const std::byte*>(binary.data());
    binary.remove_prefix(*bytes);
    if (input.type->dtype == PLM_PRED) {
      const auto* const end = input.data + *bytes;
      const auto* const wrong =
          std::find_if(input.data, end, [](std::byte value) { return value > std::byte{1}; });
      if (wrong != end) {
        throw bad_request(of + "element " + std::to_string(wrong - input.data) +
                          " of the binary data is no BOOL (a byte of 0 or 1)");
      }
    }
  } else {
    if (!described.has_data) throw bad_request(of + "neither data nor binary_data_size");
    if (described.stored != *bytes) {
      throw bad_request(of + "data has " + std::to_string(described.stored / input.type->bytes) +
                        " elements, " + array + " has " +
                        std::to_string(*bytes / input.type->bytes));
    }
    input.data = input.decoded.data();
  }
  input.bytes = *bytes;
}

}  // namespace

InferRequest parse_infer_request(std::string_view body, std::optional<std::size_t> json_bytes) {
  if (json_bytes && *json_bytes > body.size()) {
    throw bad_request("Inference-Header-Content-Length is " + std::to_string(*json_bytes) +
                      ", the body has " + std::to_string(body.size()) + " bytes");
  }
  const std::string_view text = body.substr(0, json_bytes.value_or(body.size()));
  std::string_view binary = body.substr(text.size());
  Reader reader(text);
  const auto parse = [&] {
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
      throw bad_request("the JSON cannot be read");
    }
  };
  parse();
  if (reader.again()) {
    reader.begin_again();
    parse();
  }
  InferRequest request = std::move(reader.request());
  for (Described& described : reader.inputs()) {
    find_elements(described, binary);
    request.inputs.push_back(std::move(described.input));
  }
  if (!binary.empty()) {
    throw bad_request("the body has " + std::to_string(binary.size()) +
                      " bytes more than the inputs' binary_data_size say");
  }
  for (const RequestedOutput& output : request.outputs) {
    if (output.name.empty()) throw bad_request("an output has no name");
  }
  return request;
}

}  // namespace plimsoll::examples::serve
