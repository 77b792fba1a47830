/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tools_text.h - what models are told of each tool; for tools.c alone
 *
 * Words such as $TIMEOUT are rows of tools.c. A schema has ' where JSON has ", and a
 * word there may be any JSON.
 */
#ifndef API_TOOLS_TEXT_H
#define API_TOOLS_TEXT_H

/* clang-format off */

#define LIMITS_TEXT                                                                \
	"Limits: $TIMEOUT s unless the call asks for another time (at most "       \
	"$MAX_TIMEOUT s), $MEMORY_MB MB of memory, the first $OUTPUT_KB KB of "    \
	"stdout and of stderr. $NETWORK "

#define TIMEOUT_SCHEMA                                                             \
	"{'type':'number','minimum':0,'description':'Seconds until the program "   \
	"is ended. Default $TIMEOUT, at most $MAX_TIMEOUT'}"
#define LANGUAGE_SCHEMA                                                            \
	"{'type':'string','enum':$LANGUAGES,'description':'What the code is "      \
	"written in. Default $DEFAULT'}"
#define CODE_SCHEMA                                                                \
	"{'type':'string','minLength':1,'description':'The whole program. Print "  \
	"what you want to see'}"
#define ARGS_SCHEMA                                                                \
	"{'type':'array','items':{'type':'string'},'description':'Arguments of "   \
	"the program'}"
#define ENV_SCHEMA                                                                 \
	"{'type':'object','additionalProperties':{'type':'string'},"               \
	"'description':'Environment variables to add'}"
#define AT_LEAST(n) "{'type':'integer','minimum':" n "}"

/* ---- run_code ---- */

#define RUN_CODE_TEXT                                                              \
	"Run a program in a fresh Linux sandbox and get its output, exit code and " \
	"files. Use it to compute, to try code out, to convert or analyse data. "  \
	"Every call starts from nothing: no file, variable or process of an "      \
	"earlier call is there. Languages: $SERVED (default: $DEFAULT). "          \
	LIMITS_TEXT                                                                \
	"What the program writes into the directory that the environment "        \
	"variable OUTPUT_DIR names comes back in files_produced. A program that "  \
	"fails is not an error of the call: exit_code and meta.verdict say how "   \
	"it ended, stderr why. "                                                   \
	"Example: {\"language\":\"$DEFAULT\",\"code\":\"$SAMPLE\"}"

#define RUN_CODE_INPUT                                                             \
	"{'type':'object','properties':{"                                          \
	"'code':" CODE_SCHEMA ","                                                  \
	"'language':" LANGUAGE_SCHEMA ","                                          \
	"'timeout_seconds':" TIMEOUT_SCHEMA ","                                    \
	"'requirements':{'type':'array','items':{'type':'string'},"                \
	"'description':'Packages to install first, of python and node only: "      \
	"six, numpy>=1.26, lodash@4'},"                                            \
	"'files':{'type':'object','additionalProperties':{'type':'string'},"       \
	"'description':'Files for the working directory: relative path to "        \
	"base64'},"                                                                \
	"'stdin':{'type':'string','description':'What the program reads from "     \
	"standard input'},"                                                        \
	"'args':" ARGS_SCHEMA ","                                                  \
	"'env':" ENV_SCHEMA ","                                                    \
	"'limits':{'type':'object','description':'Lower limits than those of the " \
	"server; higher ones are cut to them','properties':{"                      \
	"'memory_mb':" AT_LEAST("8") ","                                           \
	"'cpu_seconds':" AT_LEAST("1") ","                                         \
	"'pids':" AT_LEAST("1") ","                                                \
	"'disk_mb':" AT_LEAST("1") ","                                             \
	"'max_output_kb':" AT_LEAST("1") "}},"                                     \
	"'network':{'type':['boolean','array'],'items':{'type':'string'},"         \
	"'description':'true, or the hosts that the program must reach. "          \
	"$NETWORK'}"                                                               \
	"},'required':['code'],'additionalProperties':false}"

#define RUN_CODE_OUTPUT                                                            \
	"{'type':'object','properties':{"                                          \
	"'status':{'type':'string','enum':['success','error'],"                    \
	"'description':'success for exit code 0'},"                                \
	"'stdout':{'type':'string'},"                                              \
	"'stderr':{'type':'string'},"                                              \
	"'exit_code':{'type':'integer','description':'Of the program itself. "     \
	"128+N: ended by signal N. -1: it took too long, or packages could not "   \
	"be installed'},"                                                          \
	"'execution_time_ms':{'type':'integer'},"                                  \
	"'duration':{'type':'number','description':'The same in seconds'},"        \
	"'files_produced':{'type':'object','additionalProperties':"                \
	"{'type':'string'},'description':'What the program left in OUTPUT_DIR: "   \
	"path to base64'},"                                                        \
	"'meta':{'type':'object','properties':{"                                   \
	"'verdict':{'type':'string','enum':['ok','nonzero_exit','timeout',"        \
	"'cpu_timeout','out_of_memory','signal','disk_full','install_failed',"     \
	"'blocked_import'],'description':'How it ended'},"                         \
	"'mode':{'type':'string'},"                                                \
	"'runtime':{'type':'string'},"                                             \
	"'image':{'type':'string'},"                                               \
	"'message':{'type':'string','description':'Why, in a sentence'},"          \
	"'truncated':{'type':'boolean','description':'Output was cut'},"           \
	"'timed_out':{'type':'boolean'},"                                          \
	"'signal':{'type':['integer','null']},"                                    \
	"'install_ms':{'type':'integer'},"                                         \
	"'install':{'type':'object'},"                                             \
	"'blocked_imports':{'type':'array','items':{'type':'string'}},"            \
	"'violations':{'type':['array','null'],'items':{'type':'object',"          \
	"'properties':{'syscall':{'type':'string'},'count':{'type':'integer'},"    \
	"'errno':{'type':'string'},'args':{'type':'array'},"                       \
	"'hint':{'type':'string'}},'required':['syscall','count','errno']},"       \
	"'description':'System calls that were refused; null: not known'},"        \
	"'violations_truncated':{'type':'boolean'},"                               \
	"'files_skipped':{'type':'array','items':{'type':'object'}},"              \
	"'resource_limits':{'type':'object'},"                                     \
	"'usage':{'type':'object'},"                                               \
	"'network':{'type':'object'},"                                             \
	"'isolation':{'type':'string'}"                                            \
	"},'required':['verdict','mode','truncated','timed_out']}"                 \
	"},'required':['status','stdout','stderr','exit_code','execution_time_ms'," \
	"'duration','meta']}"

/* ---- run_python_code ---- */

#define RUN_PYTHON_TEXT                                                            \
	"Run Python code in a fresh sandbox and get one text: what it printed, "   \
	"or \"(no output)\", or \"Error (exit 1, nonzero_exit): \" and its "       \
	"stderr. Use it for calculations and quick checks, and print the results: " \
	"a bare expression shows nothing. Nothing stays between calls. "           \
	LIMITS_TEXT                                                                \
	"Example: {\"code\":\"print(sum(range(10)))\"}"

#define RUN_PYTHON_INPUT                                                           \
	"{'type':'object','properties':{"                                          \
	"'code':" CODE_SCHEMA ","                                                  \
	"'timeout':" TIMEOUT_SCHEMA                                                \
	"},'required':['code'],'additionalProperties':false}"

/* ---- sandbox_run ---- */

#define SANDBOX_RUN_TEXT                                                           \
	"Run a program beside text files in a fresh sandbox. Use it when code "    \
	"reads files, arguments or environment variables; run_code is for "        \
	"packages, binary files, and files as a result. The files are in the "     \
	"working directory; nothing stays between calls. Runtimes: $SERVED "       \
	"(default: $DEFAULT). "                                                    \
	LIMITS_TEXT                                                                \
	"ok is true for exit code 0, else error says in a sentence what happened. " \
	"Example: {\"runtime\":\"$DEFAULT\",\"code\":\"$SAMPLE\","                 \
	"\"files\":{\"in.txt\":\"1 2 3\"}}"

#define SANDBOX_RUN_INPUT                                                          \
	"{'type':'object','properties':{"                                          \
	"'runtime':" LANGUAGE_SCHEMA ","                                           \
	"'code':" CODE_SCHEMA ","                                                  \
	"'files':{'type':'object','additionalProperties':{'type':'string'},"       \
	"'description':'Files for the working directory: relative path to text'}," \
	"'env':" ENV_SCHEMA ","                                                    \
	"'args':" ARGS_SCHEMA ","                                                  \
	"'timeout_seconds':" TIMEOUT_SCHEMA                                        \
	"},'required':['code'],'additionalProperties':false}"

#define SANDBOX_RUN_OUTPUT                                                         \
	"{'type':'object','properties':{"                                          \
	"'ok':{'type':'boolean'},"                                                 \
	"'runtime':{'type':'string'},"                                             \
	"'exit_code':{'type':'integer'},"                                          \
	"'duration_ms':{'type':'integer'},"                                        \
	"'stdout':{'type':'string'},"                                              \
	"'stderr':{'type':'string'},"                                              \
	"'error':{'type':['string','null'],'description':'null when ok'}"          \
	"},'required':['ok','runtime','exit_code','duration_ms','stdout',"         \
	"'stderr','error']}"

/* clang-format on */

#endif
