#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/api/answer.hpp"
#include "server/api/service.hpp"
#include "server/http/exchange.hpp"

namespace inferno::api {

/// A request that came in.
struct Incoming {
  std::shared_ptr<Service> service;
  std::shared_ptr<http::Exchange> exchange;
  std::shared_ptr<Presence> presence;
  bool is_large = false;  ///< see Workers
};

enum class Handled : std::uint8_t {
  yes,
  as_large,  ///< nothing was done: this took for a small job what is to be done as a large one
};

// What is done with the body of a POST, in a worker's thread. They throw what is wrong with it.

Handled answer_chat(const Incoming& incoming);
Handled answer_completion(const Incoming& incoming);
Handled answer_embedding(const Incoming& incoming);
Handled answer_tokenize(const Incoming& incoming);
Handled answer_detokenize(const Incoming& incoming);

/// The body of GET /v1/models.
std::string model_list(const Service& service);
/// Of GET /v1/models/{id}. Throws ApiError (404).
std::string model_entry(const Service& service, const std::string& id);

}  // namespace inferno::api
