"""The programs that can be judged, and what each may be given.

Left out on purpose: what runs other programs (xargs, timeout, nice, sudo, ssh, shells, interpreters, on some
systems arch), awk (it writes files and runs commands), pagers (they open editors), lsof (it writes a cache).
"""

from __future__ import annotations

from nacre.tools.shell.options import Options, names

HARMLESS = names(
    # No argument makes one of these write, so their arguments may even be expansions.
    """
    : b2sum basename cat cd cksum cmp column comm cut df dirname du echo egrep expand expr factor
    false fgrep fmt fold free grep groups head hexdump id join ls md5sum nl nproc numfmt od paste
    printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum shasum
    sleep stat strings sum tac tail tr true tsort type uname unexpand uptime users wc which who
    whoami
    """
)

BUILTIN_ONLY = frozenset({":", "cd", "type", "command"})
"""Known to the shell itself: under a path, the name is somebody's file."""

SYSTEM_DIRECTORIES = ("/bin/", "/usr/bin/")
"""Where a program is the one its name says; elsewhere it may be anyone's."""


RESTRICTED: dict[str, Options] = {
    "base64": Options(flags="d", valued="w", long=names("decode"), long_valued=names("wrap")),
    "date": Options(  # -s and a bare operand set the clock
        flags="Ru",
        valued="dr",
        attached="I",
        long=names("utc universal rfc-email iso-8601 rfc-3339"),
        long_valued=names("date reference"),
    ),
    "diff": Options(  # -l runs pr
        flags="abBcdeEiNnpqrsTtuwyZ",
        valued="CFIUWXx",
        attached="0123456789",
        long=names(
            """
            brief text ignore-all-space ignore-blank-lines ignore-case ignore-space-change
            new-file recursive report-identical-files side-by-side suppress-common-lines unified
            context color minimal strip-trailing-cr ignore-trailing-space left-column
            no-dereference
            """
        ),
        long_valued=names("exclude width label ignore-matching-lines"),
    ),
    "file": Options(  # -C writes a database, -z runs unpackers, -p sets the time of access
        flags="0bEhikLNrv",
        valued="F",
        long=names(
            """
            brief mime mime-type mime-encoding dereference no-dereference keep-going raw no-pad
            extension
            """
        ),
        long_valued=names("separator"),
    ),
    "hostname": Options(  # an operand sets the name
        flags="AdfiIsy",
        long=names("fqdn long short domain ip-address all-ip-addresses all-fqdns"),
        max_operands=0,
    ),
    "rg": Options(  # --pre and --hostname-bin run a program, -z runs unpackers
        flags="0abcFHhIiLlNnopqSsUuvwx.P",
        valued="ABCEefgjMmrTtd",
        long=names(
            """
            no-heading heading hidden no-ignore no-ignore-vcs files files-with-matches
            files-without-match fixed-strings ignore-case smart-case case-sensitive line-number
            no-line-number with-filename no-filename word-regexp line-regexp count count-matches
            only-matching multiline multiline-dotall invert-match json vimgrep stats trim null
            text binary pcre2 follow quiet column type-list debug no-messages pretty no-config
            unrestricted passthru sort-files one-file-system crlf glob-case-insensitive
            """
        ),
        long_valued=names(
            """
            after-context before-context context regexp file glob iglob max-count max-depth
            max-filesize max-columns type type-not color colors sort sortr threads replace
            encoding path-separator engine type-add context-separator
            """
        ),
    ),
    "sort": Options(  # -o writes, -T places temporary files, --compress-program runs a program
        flags="bCcdfghiMmnRrsuVz",
        valued="kSt",
        long=names(
            """
            ignore-leading-blanks dictionary-order ignore-case general-numeric-sort
            ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse
            sort version-sort check merge stable unique zero-terminated debug
            """
        ),
        long_valued=names("key field-separator buffer-size parallel"),
    ),
    "tree": Options(  # -o writes, -R writes an index into each directory
        flags="aACdDfFghilnNpqQrstuUvxJX",
        separate="ILP",
        long=names(
            """
            dirsfirst filesfirst noreport prune du si inodes device gitignore matchdirs
            ignore-case metafirst nolinks fflinks
            """
        ),
        long_valued=names("sort timefmt filelimit charset"),
    ),
    "uniq": Options(  # a second operand is written to
        flags="cDdiuz",
        valued="fsw",
        long=names("count repeated all-repeated unique ignore-case group zero-terminated"),
        long_valued=names("skip-fields skip-chars check-chars"),
        max_operands=1,
    ),
    "w": Options(flags="fhiosu", max_operands=0),
}
