// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/mesh_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "runtime/ir/hint.h"

namespace plimsoll::passes {
namespace {

using ir::MeshAxisPart;

struct Mesh {
  std::vector<std::string> axes;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> devices;  // empty: in order
};

// Attributes' texts as Shardy prints them, quotes escaped or not.
class Text {
 public:
  explicit Text(std::string text) : text_(std::move(text)) {
    std::erase(text_, '\\');
    rest_ = text_;
  }
  bool take(std::string_view word) {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  // Up to behind the next such word; false where there is none.
  bool skip_behind(std::string_view word) {
    const auto at = rest_.find(word);
    if (at == std::string_view::npos) return false;
    rest_.remove_prefix(at + word.size());
    return true;
  }
  std::optional<std::int64_t> number() {
    (void)take("");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  // `"name"`.
  std::optional<std::string> quoted() {
    if (!take("\"")) return std::nullopt;
    const auto end = rest_.find('"');
    if (end == std::string_view::npos) return std::nullopt;
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return name;
  }
  // A name without quotes.
  std::string word() {
    (void)take("");
    std::size_t size = 0;
    while (size < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[size])) != 0 ||
                                   rest_[size] == '_' || rest_[size] == '.')) {
      ++size;
    }
    std::string name(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return name;
  }

 private:
  std::string text_;
  std::string_view rest_;
};

// `<["a"=2, "b"=4], device_ids=[...]>`, from the bracket on.
std::optional<Mesh> read_mesh(Text& text) {
  Mesh mesh;
  if (!text.take("[")) return std::nullopt;
  while (!text.take("]")) {
    const auto name = text.quoted();
    if (!name || !text.take("=")) return std::nullopt;
    const auto size = text.number();
    if (!size || *size < 1) return std::nullopt;
    mesh.axes.push_back(*name);
    mesh.sizes.push_back(*size);
    (void)text.take(",");
  }
  if (text.take(",")) {
    if (!text.take("device_ids=[")) return std::nullopt;
    while (!text.take("]")) {
      const auto id = text.number();
      if (!id) return std::nullopt;
      mesh.devices.push_back(*id);
      (void)text.take(",");
    }
  }
  if (!text.take(">")) return std::nullopt;
  return mesh;
}

// `"a"` or `"a":(2)4`, a part of an axis of which 2 come before.
bool read_axis(Text& text, const Mesh& mesh, const std::set<std::string>& counted,
               std::vector<MeshAxisPart>& out) {
  const auto name = text.quoted();
  if (!name) return false;
  const auto found = std::find(mesh.axes.begin(), mesh.axes.end(), *name);
  if (found == mesh.axes.end()) return false;
  MeshAxisPart part;
  part.axis = found - mesh.axes.begin();
  if (text.take(":(")) {
    const auto before = text.number();
    if (!before || !text.take(")")) return false;
    const auto size = text.number();
    if (!size) return false;
    part.before = *before;
    part.size = *size;
  }
  if (counted.contains(*name)) out.push_back(part);
  return true;
}

// `<@mesh, [{"a"}, {"b", ?}, {}], replicated={"c"}, unreduced={"d"}>`.
std::optional<ir::Sharding> read_sharding(Text& text, const std::map<std::string, Mesh>& meshes,
                                          const std::set<std::string>& counted) {
  if (!text.take("<")) return std::nullopt;
  std::optional<Mesh> mesh;
  if (text.take("@")) {
    const auto found = meshes.find(text.word());
    if (found == meshes.end()) return std::nullopt;
    mesh = found->second;
  } else if (text.take("mesh<")) {
    mesh = read_mesh(text);
  }
  if (!mesh || !text.take(",") || !text.take("[")) return std::nullopt;
  std::vector<std::vector<MeshAxisPart>> dimensions;
  while (!text.take("]")) {
    if (!text.take("{")) return std::nullopt;
    auto& dimension = dimensions.emplace_back();
    while (!text.take("}")) {
      if (!text.take("?") && !read_axis(text, *mesh, counted, dimension)) return std::nullopt;
      (void)text.take(",");
    }
    if (text.take("p") && !text.number()) return std::nullopt;  // a priority
    (void)text.take(",");
  }
  std::vector<MeshAxisPart> unreduced;
  while (!text.take(">")) {
    (void)text.take(",");
    if (text.take("unreduced={")) {
      while (!text.take("}")) {
        if (!read_axis(text, *mesh, counted, unreduced)) return std::nullopt;
        (void)text.take(",");
      }
    } else if (!text.skip_behind("}")) {  // axes that hold copies
      return std::nullopt;
    }
  }
  auto made = ir::mesh_sharding(mesh->sizes, dimensions, mesh->devices, unreduced);
  if (!made.ok()) return std::nullopt;
  return std::move(made).value();
}

std::map<std::string, Mesh> read_meshes(const ir::Module& module) {
  std::map<std::string, Mesh> meshes;
  ir::Attributes header;
  header.extra = module.extra;
  const auto all = ir::find_frontend_attribute(header, "xla.sdy.meshes");
  if (!all) return meshes;
  Text text{std::string(*all)};
  (void)text.take("{");
  for (;;) {
    const std::string name = text.word();
    if (name.empty() || !text.take("=") || !text.skip_behind("<")) return meshes;
    auto mesh = read_mesh(text);
    if (!mesh) return meshes;
    meshes[name] = std::move(*mesh);
    if (!text.take(",")) return meshes;
  }
}

}  // namespace

Result<std::vector<ir::Sharding>> read_mesh_shardings(const ir::Instruction& call,
                                                      std::string_view attribute) {
  const auto wrong = [&](std::string_view what) {
    return invalid_argument("'" + call.name() + "': can't read its " + std::string(what));
  };
  const auto manual = ir::find_frontend_attribute(call.attributes(), "xla.sdy.manual_axes");
  const auto shardings = ir::find_frontend_attribute(call.attributes(), attribute);
  if (!manual || !shardings) return wrong("manual axes and shardings");
  std::set<std::string> counted;
  Text axes{std::string(*manual)};
  while (axes.skip_behind("\"")) {
    counted.insert(axes.word());
    if (!axes.take("\"")) return wrong("manual axes");
  }
  const std::map<std::string, Mesh> meshes = read_meshes(*call.parent()->module());
  Text text{std::string(*shardings)};
  if (!text.skip_behind("sharding_per_value<[")) return wrong("shardings");
  std::vector<ir::Sharding> made;
  while (!text.take("]")) {
    auto one = read_sharding(text, meshes, counted);
    if (!one) return wrong("shardings");
    made.push_back(std::move(*one));
    (void)text.take(",");
  }
  return made;
}

}  // namespace plimsoll::passes
