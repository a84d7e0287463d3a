#include <iostream>

#include <inferno/inferno.hpp>

int main() {
  inferno::Engine engine(inferno::Model::load(inferno::Model::default_path()));
  inferno::Request request;
  request.prompt = "Once upon a time";
  engine.generate(request, [](std::string_view text) {
    std::cout << text << std::flush;
    return true;
  });
}
