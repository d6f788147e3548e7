"""Configurations of Codex that people have: each a text that a setup must give back byte by byte."""

CONFIGS: dict[str, str] = {
    "empty": "",
    "only a comment": "# mine\n",
    "no line end at the end": 'model = "gpt-5.5"',
    "a default model with a comment": 'model = "gpt-5.5"  # the good one\nmodel_provider = "openai"\n',
    "comments everywhere": '# top\n\nmodel = "a" # b\n\n# before\n[tui] # after\ntheme = "x"\n# end\n',
    "another provider": '[model_providers.local]\nname = "Local"\nbase_url = "http://h/v1"\n',
    "two providers with a table between": (
        '[model_providers.a]\nname = "A"\n\n[tui]\nx = 1\n\n[model_providers.b]\nname = "B"\n'
    ),
    "a header of all providers": '[model_providers]\n[model_providers.a]\nname = "A"\n',
    "providers by dotted keys": 'model_providers.a.name = "A"\nmodel = "m"\n\n[tui]\nx = 1\n',
    "providers in one line": 'model_providers = { a = { name = "A" } } # all of them\n[tui]\nx = 1\n',
    "a quoted provider": '[model_providers."my own"]\nname = "M"\n',
    "windows line ends": 'model = "a"\r\n\r\n[tui]\r\nx = 1\r\n',
    "windows, no line end at the end": 'model = "a"\r\n[tui]\r\nx = 1',
    "a byte order mark": '\ufeffmodel = "a"\n',
    "umlauts and emoji": '# größe 🚀\nmodel = "modell-ü"\n',
    "tabs and odd spaces": 'model\t=   "a"   \n\n\n\t[tui]\n  x =  1\n\n\n',
    "texts over several lines": 'notes = """\n[model_providers.gateway]\nname = 1\n"""\n[tui]\nx = 1\n',
    "arrays of tables": '[[hooks]]\nrun = "a"\n\n[[hooks]]\nrun = "b"\n',
    "mcp servers": '[mcp_servers.weather]\ncommand = "w"\nargs = ["-x",\n  "y", # why\n]\nenv = { A = "1" }\n',
    "trusted projects": '[projects."/home/me/a b"]\ntrust_level = "trusted"\n\n[projects."/x"]\ntrust_level = "no"\n',
    "old profiles": 'profile = "x"\n\n[profiles.x]\nmodel = "m"\nmodel_provider = "p"\n',
    "the settings that a default changes": (
        'model_catalog_json = "/old.json"\nmodel_provider = "p"\nmodel = "m"\n\n[features]\nplugins = false\n'
    ),
    "an empty last table": "[tui]\n",
    "dates and numbers": "a = 1979-05-27T07:32:00Z\nb = 0xff\nc = 1e3\nd = inf\n",
}
