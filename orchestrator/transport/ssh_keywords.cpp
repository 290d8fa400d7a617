#include "orchestrator/transport/ssh_keywords.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

constexpr std::string_view kKeywords =
    "addkeystoagent addressfamily batchmode bindaddress bindinterface canonicaldomains "
    "canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots canonicalizepermittedcnames "
    "casignaturealgorithms certificatefile channeltimeout checkhostip ciphers clearallforwardings "
    "compression connectionattempts connecttimeout controlmaster controlpath controlpersist "
    "dynamicforward enableescapecommandline enablesshkeysign escapechar exitonforwardfailure "
    "fingerprinthash forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted "
    "gatewayports globalknownhostsfile gssapiauthentication gssapiclientidentity "
    "gssapidelegatecredentials gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey "
    "gssapiserveridentity gssapitrustdns hashknownhosts hostbasedacceptedalgorithms "
    "hostbasedauthentication hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent "
    "identityfile ignoreunknown ipqos kbdinteractiveauthentication kbdinteractivedevices kexalgorithms "
    "knownhostscommand localcommand localforward loglevel logverbose macs "
    "nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming "
    "passwordauthentication permitlocalcommand permitremoteopen pkcs11provider port "
    "preferredauthentications proxycommand proxyjump proxyusefdpass pubkeyacceptedalgorithms "
    "pubkeyauthentication rekeylimit remotecommand remoteforward requesttty requiredrsasize "
    "revokedhostkeys securitykeyprovider sendenv serveralivecountmax serveraliveinterval sessiontype "
    "setenv stdinnull streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility tag "
    "tcpkeepalive tunnel tunneldevice updatehostkeys user userknownhostsfile verifyhostkeydns "
    "visualhostkey xauthlocation";

constexpr std::pair<std::string_view, std::string_view> kOldNames[] = {
    {"challengeresponseauthentication", "kbdinteractiveauthentication"},
    {"keyboardinteractiveauthentication", "kbdinteractiveauthentication"},
    {"skeyauthentication", "kbdinteractiveauthentication"},
    {"tisauthentication", "kbdinteractiveauthentication"},
    {"dsaauthentication", "pubkeyauthentication"},
    {"pubkeyacceptedkeytypes", "pubkeyacceptedalgorithms"},
    {"hostbasedkeytypes", "hostbasedacceptedalgorithms"},
    {"globalknownhostsfile2", "globalknownhostsfile"},
    {"userknownhostsfile2", "userknownhostsfile"}};

}  // namespace

const std::vector<std::string>& ssh_keywords() {
  static const std::vector<std::string> words = split(kKeywords, ' ');
  return words;
}

bool is_ssh_keyword(std::string_view key) {
  return std::binary_search(ssh_keywords().begin(), ssh_keywords().end(), key);
}

std::string ssh_current_name(const std::string& key) {
  const auto renamed =
      std::find_if(std::begin(kOldNames), std::end(kOldNames), [&](const auto& pair) { return pair.first == key; });
  return renamed == std::end(kOldNames) ? key : std::string(renamed->second);
}

bool ssh_values_add_up(std::string_view key) {
  return key == "identityfile" || key == "certificatefile" || key == "sendenv" || key == "localforward" ||
         key == "remoteforward" || key == "dynamicforward" || key == "setenv";
}

}  // namespace millwright
