// Completions for shells, and the manual page, made from the tool's own arguments.
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/commands.hpp"
#include "tools/text.hpp"
#include <symm/symm.h>

namespace symm::tool {
namespace {
// The options that are not hidden.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* one) { return !one->get_group().empty(); });
}

std::string escaped(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    out += special.find(c) != special.npos ? std::string("\\") + c : std::string(1, c);
  }
  return out;
}

// Escapes text so that roff prints it as it is.
std::string roff(const std::string& text) {
  const std::string out = escaped(text, "\\-");
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string text_of_options(const CLI::App& command) {
  std::string out;
  for (const CLI::Option* option : options_of(command)) {
    const std::string type = option->get_type_name();  // "INT:INT in [1 - 65535]"
    const std::string value = option->get_expected_max() == 0 || option->get_positional()
                                  ? ""
                                  : " " + type.substr(0, type.find(':'));
    const std::string usual = option->get_default_str();
    out += ".TP\n.B " + roff(option->get_name(option->get_positional(), true) + value) + "\n" +
           roff(option->get_description()) +
           (usual.empty() ? "" : roff(" (default: " + usual + ")")) + "\n";
  }

  return out;
}
}  // namespace

std::string manual(const CLI::App& app) {
  std::string out = ".TH SYMM 1 \"\" \"symm " + version_text(symm_version()) +
                    "\" \"symm\"\n.SH NAME\nsymm \\- " + roff(app.get_description()) +
                    "\n.SH SYNOPSIS\n.B symm\n.I command\n[options]\n.SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    out += ".SS " + roff(command->get_name()) + "\n" + roff(command->get_description()) + "\n" +
           text_of_options(*command);
  }
  return out + ".SH OPTIONS\n" + text_of_options(app);
}

// Words after "--" are a command, which bash completes as any other. The script uses only what zsh
// knows too, after bashcompinit.
std::string bash_completion(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += " " + command->get_name();
    cases += "    " + command->get_name() + ") words=\"";
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        cases += " --" + name;
      }
    }
    cases += "\" ;;\n";
  }

  return "_symm() {\n  local word=${COMP_WORDS[COMP_CWORD]} words=\n  case ${COMP_WORDS[1]} in\n" +
         cases + "  esac\n  if ((COMP_CWORD == 1)); then words=\"" + names +
         " --help --version\"; elif [[ $word != -* ]]; then words=; fi\n" +
         "  [[ \" ${COMP_WORDS[*]:0:$COMP_CWORD} \" == *' -- '* ]] && words=\n" +
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o default -F _symm "
         "symm\n";
}

std::string fish_completion(const CLI::App& app) {
  const auto said = [](const std::string& text) { return " -d '" + escaped(text, "\\'") + "'\n"; };
  std::string out;
  for (const CLI::App* command : app.get_subcommands({})) {
    out += "complete -c symm -f -n __fish_use_subcommand -a " + command->get_name() +
           said(command->get_description());
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        out += "complete -c symm -n '__fish_seen_subcommand_from " + command->get_name() +
               "; and not contains -- -- (commandline -opc)' -l " + name +
               (option->get_expected_max() > 0 ? " -r" : "") + said(option->get_description());
      }
    }
  }

  return out;
}
}  // namespace symm::tool
