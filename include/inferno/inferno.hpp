#pragma once

/// The whole public API.
///
///     inferno::Engine engine(inferno::Model::load(inferno::Model::default_path()));
///     engine.generate({.prompt = "Once upon a time"}, [](std::string_view text) {
///       std::cout << text << std::flush;
///       return true;
///     });

#include <inferno/engine.hpp>
#include <inferno/error.hpp>
#include <inferno/model.hpp>
#include <inferno/request.hpp>
#include <inferno/sampling.hpp>
