#pragma once

namespace inferno::cli {

/// From here on a read of a mapped file's page that is gone ends the program with one line and exit code 1
/// instead of a bus error: another program shortened the file, or its disk failed. Only programs do this: a
/// library must leave its caller's signal handlers alone.
void report_lost_pages();

}  // namespace inferno::cli
