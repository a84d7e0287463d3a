#pragma once

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
};

// What is done with the body of a POST, in a worker's thread. They throw what is wrong with it.

void answer_chat(const Incoming& incoming);
void answer_completion(const Incoming& incoming);
void answer_embedding(const Incoming& incoming);
void answer_tokenize(const Incoming& incoming);
void answer_detokenize(const Incoming& incoming);

/// The body of GET /v1/models.
std::string model_list(const Service& service);
/// Of GET /v1/models/{id}. Throws ApiError (404).
std::string model_entry(const Service& service, const std::string& id);

}  // namespace inferno::api
