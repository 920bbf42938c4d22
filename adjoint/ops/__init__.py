"""Every primitive with its rules, and its public function beside it."""
