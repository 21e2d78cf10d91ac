"""What authors of plug-ins test with: contract suites, and the fake hub and state backend that these need."""
