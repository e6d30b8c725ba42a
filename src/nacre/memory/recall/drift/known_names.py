"""Names that belong to no project: other programs, their flags, built-in names of languages; file extensions.

Their absence from a working tree does not make a memory outdated (R12).
"""

from __future__ import annotations

import builtins
import sys

CODE_ENDINGS = frozenset(
    "bash bat c cc clj cpp cs css cu cxx dart ex exs fish go graphql h hpp hs html ipynb java js jsx"
    " kt kts less lua m mjs cjs mm mts cts php pl proto ps1 py pyi pyx r rb rs sass scala scss sh sol"
    " sql svelte swift tf ts tsx vue wgsl glsl zig zsh mk gradle cmake".split()
)
PROSE_ENDINGS = frozenset("adoc changelog markdown md mdx po rst txt".split())
"""Files that describe code: a function that they name need not exist."""
DATA_ENDINGS = frozenset(
    "cfg conf csv dat db env example hcl ini json json5 jsonc jsonl lock log parquet plist properties"
    " sqlite toml tsv xml yaml yml svg png jpg gif webp ico wasm service nix".split()
)
"""Files that a program may create at run time."""
ENDINGS = CODE_ENDINGS | PROSE_ENDINGS | DATA_ENDINGS
PLAIN_FILES = frozenset(
    "Dockerfile Makefile GNUmakefile Justfile justfile Procfile Gemfile Rakefile Vagrantfile"
    " Jenkinsfile Brewfile CMakeLists.txt CODEOWNERS LICENSE .gitignore .gitattributes .dockerignore"
    " .editorconfig .npmrc .nvmrc .eslintrc .prettierrc .env.example .python-version .gitlab-ci.yml"
    " .pre-commit-config.yaml".split()
)
"""Names of files that have no ending, or begin with a dot."""
LIBRARIES = frozenset(
    "alpine.js angular.js backbone.js chart.js d3.js ember.js express.js jquery.js moment.js nest.js"
    " next.js node.js nuxt.js p5.js react.js socket.io three.js vue.js".split()
)
"""Names of libraries that look like files."""
DOMAINS = frozenset("ai app cn co com de dev edu eu gov io jp me net org tv uk us xyz".split())
"""Last parts of host names."""
GENERATED = frozenset(
    "__pycache__ bin-debug build coverage dist htmlcov logs node_modules out site-packages target tmp"
    " venv .cache .git .mypy_cache .next .nuxt .pytest_cache .ruff_cache .tox .venv".split()
)
"""Folders that are generated."""
MEDIA_TYPES = frozenset("application audio font image message model multipart text video".split())
"""The first part of a media type."""
WORDS = frozenset(
    [name for name in dir(builtins) if not name.startswith("_")]
    + "GitHub GitLab JavaScript TypeScript PostgreSQL MySQL GraphQL OpenAI YouTube LinkedIn"
    " DigitalOcean VSCode macOS iOS iPhone iPad eBay WebSocket WebAssembly DevOps CircleCI BitBucket"
    " StackOverflow PowerShell LocalStorage sizeof malloc printf require setTimeout setInterval"
    " parseInt parseFloat isNaN".split()
)
"""Names of languages, products and built-in functions."""
MODULES = frozenset(sys.stdlib_module_names) | frozenset(
    "console document window Math JSON Object Array Promise Number String Date process np pd plt tf"
    " torch React Vue navigator fmt strings std".split()
)
"""First parts of dotted names of libraries."""
FLAGS = frozenset(
    "--all --allow-empty --amend --author --bare --branch --cached --check --color --continue --debug"
    " --delete --depth --diff --dry-run --edit --exclude --extra --fix --follow --force"
    " --force-with-lease --format --global --hard --help --ignore --include --init --interactive"
    " --keep-going --legacy-peer-deps --limit --list --local --name --no-cache --no-color --no-deps"
    " --no-edit --no-ff --no-gpg-sign --no-pager --no-save --no-verify --now --oneline --output"
    " --patch --porcelain --prod --production --quiet --rebase --recursive --reload --rm --save-dev"
    " --set-upstream --short --signoff --silent --soft --squash --staged --stat --strict --system"
    " --tags --trust --update --upgrade --user --verbose --version --watch --yes".split()
)
"""Flags of git, package managers and compilers; of the project only if its files have them."""
VARIABLES = frozenset(
    "NO_COLOR GITHUB_TOKEN GITHUB_ACTIONS GITHUB_OUTPUT NODE_ENV NODE_OPTIONS LD_LIBRARY_PATH"
    " XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME AWS_PROFILE AWS_REGION AWS_ACCESS_KEY_ID"
    " AWS_SECRET_ACCESS_KEY JAVA_HOME VIRTUAL_ENV SSH_AUTH_SOCK HTTP_PROXY HTTPS_PROXY NO_PROXY LC_ALL"
    " PYTHON_VERSION".split()
)
"""Variables that other programs read."""


def is_external(kind: str, text: str) -> bool:
    """Whether a reference need not be in the tree of the project."""
    match kind:
        case "flag":
            return text in FLAGS
        case "variable":
            return text in VARIABLES
        case "symbol":
            return text in WORDS or text in VARIABLES or text.partition(".")[0] in MODULES
        case "path":
            first = text.partition("/")[0]
            return first in GENERATED
        case _:
            return False
