"""Programs that print a token of the machine that they run on. The runner's setting `runner.credentials.helper` names one."""
