"""The files of an attempt's directory, and which process may touch which of them.

The runner creates one directory for each attempt that it was granted, `attempts/<job>.<attempt>/`, with mode 0700. It
contains the attempt's credential, so no file of the engine is in it: those are in the workspace and in the engine directory
(`engine_directory`).

| file            | written by                           | when, and what a reader may conclude                              |
|-----------------|--------------------------------------|-------------------------------------------------------------------|
| `attempt.json`  | runner                               | Synced before anything is started (`record`).                     |
| `lock`          | executor, or the salvage after it    | Held (`flock`) until that process ends (`ownership`).             |
| `pid`           | executor, once; or the runner        | Which process runs the attempt, or that none may (`ownership`).   |
|                 |                                      | Its name is durable before the executor does anything else, so an |
|                 |                                      | attempt without it can be handed back, also after a power cut.    |
| `executor.log`  | executor                             | The executor's own diagnostics (`delivered`).                     |
| `outbox`        | executor                             | Events in order; `output.offset` says how much output is in it.   |
| `output`        | engine (an open descriptor)          | What the engine printed. It stays writable without the executor.  |
| `output.offset` | executor                             | See `outbox`.                                                     |
| `states/`       | executor                             | States and outputs that are too large for an event, encrypted.    |
| `mutation.json` | executor                             | A mutating step was about to start; names its leftover state.     |
| `saved_plan`    | executor                             | A plan on its way to or from the server, encrypted.               |
| `downloads.json`| executor                             | What the runner may add to the shared cache (`downloads`).        |
| `last_outputs.json` | executor                         | Outputs that the runner may keep (`last_outputs`).                |
| `workspace`     | executor; the runner restores it     | A link to the attempt's workspace.                                |
| `done`          | executor; the runner, to remove it   | The server has acknowledged everything (`delivered`).             |
| `refused`       | executor                             | The server refused the rest for good (`delivered`).               |
| `history`       | executor                             | Points of the server's history: written before a mutating step,   |
|                 |                                      | and with the result of one (`remembered_points`).                 |
| `dispatcher`    | runner                               | The dispatcher whose start is next; without it, the default one.  |
| `container`     | runner                               | The container that the executor's start was requested for.        |

An executor that does not run on the runner's machine has a directory of its own with these files. The runner's has the record,
and what the dispatcher copies (`runner/dispatch/protocol.py`).

The runner writes to the directory only before it starts an executor and after every process of the attempt has ended. It
removes the directory when everything in it is acknowledged, and otherwise keeps it for a person (`undelivered/`).
"""

RECORD = "attempt.json"
LOCK = "lock"
PID = "pid"
LOG = "executor.log"
OUTBOX = "outbox"
OUTPUT = "output"
OUTPUT_OFFSET = "output.offset"
STATES = "states"
MUTATION = "mutation.json"
SAVED_PLAN = "saved_plan"
DOWNLOADS = "downloads.json"
LAST_OUTPUTS = "last_outputs.json"
WORKSPACE = "workspace"
DONE = "done"
REFUSED = "refused"
HISTORY = "history"
DISPATCHER = "dispatcher"
CONTAINER = "container"
