"""Reports of a run, for people and for CI.

    files       `write(folder, history, verdict)`: report.html and junit.xml
    page        `write_html`: one self-contained file: verdict, timeline, gaps, stories
    aggregate   one pass over the history into a bounded picture
    head, timeline, strips, charts, sections    the parts of the page
    results     what a scenario or a mutant came to; tables and junit print many of them

The page is built by `markup`, a builder of forty lines that escapes everything that is not markup already: most of the
page is drawn from numbers, so a template language would be a dependency for the little that is left.
"""
