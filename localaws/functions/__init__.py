"""Lambda's invocations: functions from their zip files, in subprocesses."""
