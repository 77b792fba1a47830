/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * log.h - one line an event on stderr, key=value or JSON
 *
 * log_info("job.done", "request=%s verdict=%s wall_ms=%u", ...): noun.verb first, then
 * keys with units. A value with spaces is written as key="%s": log.c escapes what is
 * inside quotes. "key?=%s" is left out when the value is empty. Never code, output,
 * environment or tokens. errno is kept.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

void log_setup(enum log_level least, enum log_format format, const char *process);
void log_event(enum log_level level, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* lines that standard error had no room for, since the start */
unsigned long log_lost_total(void);

#define log_debug(...) log_event(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_event(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_event(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_event(LOG_ERROR, __VA_ARGS__)

#endif
