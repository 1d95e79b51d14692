"""What people and agents call: a LangChain tool, an agent, and the `mai` command line."""
