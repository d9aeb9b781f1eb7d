"""Servers that answer in JSON of a given schema, behind the LanguageModel port."""
