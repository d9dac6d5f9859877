"""The one program of a language in the README. readme_example.py README.md c > example.c"""
import re
import sys

readme, language = sys.argv[1:]
with open(readme, encoding="utf-8") as file:
    programs = re.findall(rf"^```{language}\n(.*?)^```$", file.read(), flags=re.M | re.S)
if len(programs) != 1:
    sys.exit(f"{readme}: one ```{language} block is expected, there are {len(programs)}")
print(programs[0], end="")
