"""Comments of the header as text of another language."""

import re
import textwrap

# Words that Markdown takes for the beginning of a list, a heading or a quotation where they
# begin a line.
MARKS = re.compile(r"(?<=\S) (?=([-+*>]|#+|\d+[.)])(\s|$))")


def one_line(comment):
    return " ".join(comment.split())


def first_sentence(comment):
    """The first sentence and the tags behind it, such as [local], [collective], [blocking]: the
    rest is the header's and the safe layer's to say.
    """
    return re.match(r".*?\.(?=\s|$)(\s\[[^]]*\])*", one_line(comment))[0]


def filled(text, width, indent=""):
    """The text in lines of at most so many columns, each of which begins with `indent`."""
    glued = MARKS.sub("\0", one_line(text))
    return textwrap.fill(
        glued,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")
