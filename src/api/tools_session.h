/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tools_session.h - what models are told of the tools of sessions; for tools.c alone
 *
 * As in tools_text.h.
 */
#ifndef API_TOOLS_SESSION_H
#define API_TOOLS_SESSION_H

/* clang-format off */

#define SCOPE_SCHEMA                                                               \
	"'scope_type':{'type':'string','enum':['workflow','agent'],"               \
	"'description':'Whose session it is, together with scope_id'},"            \
	"'scope_id':{'type':'string','pattern':'^[A-Za-z0-9._-]{1,128}$'}"
#define WHICH_SCHEMA                                                               \
	"'session_id':{'type':'string','description':'What sandbox_open gave; or " \
	"name its scope; by stdio, without either, your own session'},"            \
	SCOPE_SCHEMA
#define PATH_SCHEMA                                                                \
	"'path':{'type':'string','description':'Absolute, or below /work'}"
#define CLOSED "'additionalProperties':false}"

#define OPEN_TEXT                                                                  \
	"Open a Linux environment that stays: files and background processes "     \
	"outlive a call, until sandbox_close or until nobody uses it for a while. " \
	"Use it for work of several steps: write files, run commands, look at "    \
	"results, go on. With scope_type and scope_id everybody who names the "    \
	"same scope gets the same session (created is then false). "               \
	"Example: {\"scope_type\":\"workflow\",\"scope_id\":\"run-7\"}"
#define OPEN_INPUT                                                                 \
	"{'type':'object','properties':{" SCOPE_SCHEMA ","                         \
	"'image':{'type':'string','description':'What is installed; default "      \
	"linux'},"                                                                 \
	"'limits':{'type':'object','properties':{"                                 \
	"'timeout_seconds':{'type':'number','minimum':0},"                         \
	"'max_file_size_bytes':{'type':'integer','minimum':1},"                    \
	"'max_files':{'type':'integer','minimum':1}}},"                            \
	"'allow_network':{'type':['boolean','array'],'items':{'type':'string'},"   \
	"'description':'true: the hosts that the operator allows; or fewer of "    \
	"them by name. Without it nothing is reached'},"                           \
	"'env':{'type':'object','additionalProperties':{'type':'string'},"         \
	"'description':'Environment variables of every command'},"                 \
	"'user':{'type':'string','enum':['sandbox','root'],'description':'root: "   \
	"of the session only, to install software and write everywhere in it; "    \
	"default sandbox'},"                                                       \
	"'read_only':{'type':'boolean'},"                                          \
	"'volumes':{'type':'array','items':{'type':'string'}}"                     \
	"}," CLOSED
#define OPEN_OUTPUT                                                                \
	"{'type':'object','properties':{"                                          \
	"'session_id':{'type':'string'},'image':{'type':'string'},"                \
	"'workdir':{'type':'string'},"                                             \
	"'user':{'type':'string','enum':['sandbox','root']},"                      \
	"'status':{'type':'string'},"                                              \
	"'created':{'type':'boolean','description':'false: it was there already'}," \
	"'disk':{'type':'object','description':'limit_mb, used_mb, and "           \
	"enforced: by whom'}"                                                      \
	"},'required':['session_id','image','workdir','user','status','created']}"

#define EXEC_TEXT                                                                  \
	"Run a command in a session, and get its output and exit code. Use it to " \
	"build, test and look around; what it leaves in the session stays, and "   \
	"what it starts with & goes on running. A command that takes longer than " \
	"timeout_seconds (default 60) is ended: exit_code -1 and timed_out, and "  \
	"the session stays usable. "                                               \
	"Example: {\"session_id\":\"workflow_run-7_sandbox\",\"command\":"         \
	"\"make test\"}"
#define EXEC_INPUT                                                                 \
	"{'type':'object','properties':{" WHICH_SCHEMA ","                         \
	"'command':{'type':'string','description':'A line for bash'},"             \
	"'cmd':{'type':'array','items':{'type':'string'},'description':'Instead "  \
	"of command: a program and its arguments, without a shell'},"              \
	"'timeout_seconds':{'type':'number','minimum':0},"                         \
	"'workdir':{'type':'string','description':'Default /work'},"               \
	"'env':{'type':'object','additionalProperties':{'type':'string'}},"        \
	"'stdin':{'type':'string'}"                                                \
	"}," CLOSED
#define EXEC_OUTPUT                                                                \
	"{'type':'object','properties':{"                                          \
	"'exit_code':{'type':'integer'},'stdout':{'type':'string'},"               \
	"'stderr':{'type':'string'},'duration_ms':{'type':'integer'},"             \
	"'truncated':{'type':'boolean'},'timed_out':{'type':'boolean'},"           \
	"'meta':{'type':'object'}"                                                 \
	"},'required':['exit_code','stdout','stderr','duration_ms','truncated',"   \
	"'timed_out']}"

#define WRITE_TEXT                                                                 \
	"Write a file in a session, whole and at once; directories above it are "  \
	"made. Use it for source and data; text as it is, other bytes as base64. " \
	"Example: {\"session_id\":\"workflow_run-7_sandbox\",\"path\":\"a.py\","   \
	"\"content\":\"print(1)\"}"
#define WRITE_INPUT                                                                \
	"{'type':'object','properties':{" WHICH_SCHEMA "," PATH_SCHEMA ","         \
	"'content':{'type':'string'},"                                             \
	"'encoding':{'type':'string','enum':['text','base64'],"                    \
	"'description':'Of content; default text'},"                               \
	"'mode':{'type':'string','description':'Octal; default 0644'},"            \
	"'overwrite':{'type':'boolean','description':'Default true'}"              \
	"},'required':['path','content']," CLOSED
#define WRITE_OUTPUT                                                               \
	"{'type':'object','properties':{'path':{'type':'string'},"                 \
	"'size_bytes':{'type':'integer'}},'required':['path','size_bytes']}"

#define READ_TEXT                                                                  \
	"Read a file of a session. Bytes that are no text come as base64, and "    \
	"encoding says so; truncated says that there is more. "                    \
	"Example: {\"session_id\":\"workflow_run-7_sandbox\",\"path\":\"out.log\"}"
#define READ_INPUT                                                                 \
	"{'type':'object','properties':{" WHICH_SCHEMA "," PATH_SCHEMA ","         \
	"'encoding':{'type':'string','enum':['text','base64']},"                   \
	"'max_bytes':{'type':'integer','minimum':1}"                               \
	"},'required':['path']," CLOSED
#define READ_OUTPUT                                                                \
	"{'type':'object','properties':{'path':{'type':'string'},"                 \
	"'content':{'type':'string'},"                                             \
	"'encoding':{'type':'string','enum':['text','base64']},"                   \
	"'size_bytes':{'type':'integer'},'truncated':{'type':'boolean'}},"         \
	"'required':['path','content','encoding','size_bytes','truncated']}"

#define LIST_TEXT                                                                  \
	"List a directory of a session: names, types, sizes. A long list comes "   \
	"in pages: give next as cursor for the following one. "                    \
	"Example: {\"session_id\":\"workflow_run-7_sandbox\",\"path\":\".\"}"
#define LIST_INPUT                                                                 \
	"{'type':'object','properties':{" WHICH_SCHEMA "," PATH_SCHEMA ","         \
	"'recursive':{'type':'boolean'},'cursor':{'type':'string'}"                \
	"}," CLOSED
#define LIST_OUTPUT                                                                \
	"{'type':'object','properties':{'entries':{'type':'array','items':"        \
	"{'type':'object','properties':{'name':{'type':'string'},"                 \
	"'type':{'type':'string'},'size_bytes':{'type':'integer'},"                \
	"'mode':{'type':'string'},'mtime':{'type':'integer'}},"                    \
	"'required':['name','type']}},'next':{'type':'string'}},"                  \
	"'required':['entries']}"

#define DELETE_TEXT                                                                \
	"Remove a file of a session, or a directory, with recursive true also one " \
	"that is not empty. "                                                      \
	"Example: {\"session_id\":\"workflow_run-7_sandbox\",\"path\":\"tmp\","    \
	"\"recursive\":true}"
#define DELETE_INPUT                                                               \
	"{'type':'object','properties':{" WHICH_SCHEMA "," PATH_SCHEMA ","         \
	"'recursive':{'type':'boolean'}"                                           \
	"},'required':['path']," CLOSED
#define DELETE_OUTPUT                                                              \
	"{'type':'object','properties':{'deleted':{'type':'boolean'},"             \
	"'path':{'type':'string'}},'required':['deleted','path']}"

#define CLOSE_TEXT                                                                 \
	"Close a session: its processes are ended and its files are gone. Use it " \
	"when the work is done. "                                                  \
	"Example: {\"session_id\":\"workflow_run-7_sandbox\"}"
#define CLOSE_INPUT "{'type':'object','properties':{" WHICH_SCHEMA "}," CLOSED
#define CLOSE_OUTPUT                                                               \
	"{'type':'object','properties':{'closed':{'type':'boolean'},"              \
	"'session_id':{'type':'string'}},'required':['closed','session_id']}"

/* clang-format on */

#endif
