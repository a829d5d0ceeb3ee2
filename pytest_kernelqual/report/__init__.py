"""Records become files and text: the JSON document, the journal, JUnit properties and the terminal summary."""
