/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages to the person who runs the daemon: one line each, on stderr. */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>

void log_set_verbose(bool verbose);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Only with -v. */
void log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line that is a result and not a message about one: without prefix. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
