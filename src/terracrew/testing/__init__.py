"""What tests of several packages share, and what authors of plug-ins test with: fake hubs, builders and a clock."""
