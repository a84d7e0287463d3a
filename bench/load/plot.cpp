#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include <inferno/error.hpp>

namespace inferno::load {

namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 56;
constexpr double kRight = 24;
constexpr double kTop = 24;
constexpr double kBottom = 48;
// Distinguishable with any kind of colour vision.
constexpr std::array<const char*, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#e69f00", "#56b4e9"};

}  // namespace

void plot_gaps(const std::vector<Series>& series, const std::string& path) {
  double least = 1e9;
  double most = 0;
  for (const auto& one : series) {
    for (const auto& [gap, share] : one.points) {
      if (gap > 0) least = std::min(least, gap);
      most = std::max(most, gap);
    }
  }
  if (most == 0) throw Error("there is nothing to draw: no gaps were measured");
  const double first = std::floor(std::log10(least));
  const double last = std::max(std::ceil(std::log10(most)), first + 1);
  const auto x = [&](double gap) {
    return kLeft + (std::log10(std::max(gap, least)) - first) / (last - first) * (kWidth - kLeft - kRight);
  };
  const auto y = [](double share) { return kHeight - kBottom - share * (kHeight - kTop - kBottom); };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  auto out = std::back_inserter(svg);
  for (double decade = first; decade <= last; ++decade) {
    const double at = x(std::pow(10.0, decade));
    fmt::format_to(out,
                   "<path d=\"M{0} {1}V{2}\" stroke=\"#ddd\"/><text x=\"{0}\" y=\"{3}\" "
                   "text-anchor=\"middle\">{4:g}</text>\n",
                   at, y(1), y(0), y(0) + 18, std::pow(10.0, decade));
  }
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    fmt::format_to(out,
                   "<path d=\"M{0} {1}H{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4}\" "
                   "text-anchor=\"end\">{5:g} %</text>\n",
                   kLeft, y(share), kWidth - kRight, kLeft - 8, y(share) + 4, share * 100);
  }
  fmt::format_to(out,
                 "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">gap between tokens of a stream, ms</text>\n",
                 (kLeft + kWidth - kRight) / 2, kHeight - 8);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const auto* colour = kColours[i % kColours.size()];
    fmt::format_to(out, "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", colour);
    for (const auto& [gap, share] : series[i].points) fmt::format_to(out, "{:.1f},{:.1f} ", x(gap), y(share));
    fmt::format_to(out, "\"/><text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kLeft + 12,
                   kTop + 16 + 16 * static_cast<double>(i), colour, series[i].name);
  }
  svg += "</svg>\n";
  std::ofstream file(path, std::ios::binary);
  if (!(file << svg && file.flush())) throw Error(fmt::format("cannot write {}", path));
}

}  // namespace inferno::load
