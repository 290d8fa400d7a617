#include "orchestrator/report/html_parts.hpp"

namespace millwright {

// Light and dark by the reader's system; readable on a phone and on paper. Colour only underlines what words say.
std::string_view html_style() {
  return R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d8dee4;--code:#f1f3f5;
--good:#1a7f37;--new:#0757ba;--bad:#c2222b;--warn:#8f5a00;--mute:#6a737d}
@media (prefers-color-scheme:dark){:root{--page:#0f1318;--card:#171c22;--ink:#e4e8ec;--soft:#9aa4ae;--line:#2e353d;
--code:#0f1318;--good:#4cc26a;--new:#6cb0ff;--bad:#ff7b77;--warn:#e0a83a;--mute:#8b949e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1080px;margin:0 auto;padding:1.25rem 1rem 3rem}
header.top{border-left:6px solid var(--mute);background:var(--card);padding:1rem 1.25rem;border-radius:6px;
border-top:1px solid var(--line);border-right:1px solid var(--line);border-bottom:1px solid var(--line)}
header.top.good{border-left-color:var(--good)}header.top.bad{border-left-color:var(--bad)}
header.top.warn{border-left-color:var(--warn)}
h1{font-size:1.45rem;margin:0 0 .25rem;line-height:1.25}h2{font-size:1.1rem;margin:2rem 0 .6rem}
h3{font-size:.95rem;margin:1.1rem 0 .4rem}
p{margin:.3rem 0}.lead{font-size:1.05rem}.soft{color:var(--soft)}.small{font-size:.86rem}
section>.card,.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;margin:.5rem 0}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.7rem 0 0;font-size:.92rem}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0;overflow-wrap:anywhere}
.badge{display:inline-block;min-width:4.2em;text-align:center;font-size:.78rem;font-weight:600;padding:.05rem .5rem;
border-radius:999px;border:1px solid currentColor;color:var(--mute);white-space:nowrap}
.good{color:var(--good)}.new{color:var(--new)}.bad{color:var(--bad)}.warn{color:var(--warn)}.mute{color:var(--mute)}
header.top.good,header.top.bad,header.top.warn,header.top.mute{color:var(--ink)}
ol.story{list-style:none;margin:0;padding:0}
ol.story>li{display:grid;grid-template-columns:5.2em 6.6em 1fr;gap:.1rem .7rem;padding:.45rem .2rem;
border-bottom:1px solid var(--line);align-items:baseline}
ol.story>li:last-child{border-bottom:0}
ol.story .at{color:var(--soft);font-variant-numeric:tabular-nums;font-size:.86rem;text-align:right}
ol.story .who{font-weight:600}ol.story .what{overflow-wrap:anywhere}
ol.story .right{float:right;color:var(--soft);font-size:.86rem;margin-left:.7rem}
.scroll{overflow-x:auto}
svg text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
svg .box{fill:var(--card);stroke:currentColor;stroke-width:1.5}svg .edge{fill:none;stroke:var(--mute);stroke-width:1.3}
svg .kind{fill:var(--soft);font-size:11px}svg .state{fill:currentColor;font-size:11px;font-weight:600}
.gantt{display:grid;grid-template-columns:minmax(5em,9em) 1fr 5em;gap:.2rem .6rem;align-items:center;font-size:.88rem}
.gantt .name{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.gantt .track{position:relative;height:1.05rem;background:var(--code);border-radius:3px}
.gantt .bar{position:absolute;top:0;bottom:0;min-width:3px;border-radius:3px;background:currentColor}
.gantt .took{color:var(--soft);text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.gantt .axis{position:relative;height:1.2rem;color:var(--soft);font-size:.78rem}
.gantt .axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.gantt .axis span:first-child{transform:none}.gantt .axis span:last-child{transform:translateX(-100%)}
pre{background:var(--code);border:1px solid var(--line);border-radius:4px;padding:.6rem .7rem;margin:.4rem 0;overflow:auto;
max-height:26rem;font:12.5px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;
overflow-wrap:anywhere}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
details{margin:.25rem 0}summary{cursor:pointer;overflow-wrap:anywhere}summary:hover{color:var(--new)}
details details{margin-left:1rem}
.probe{display:grid;grid-template-columns:9.5em 7em 1fr;gap:.2rem .7rem;padding:.4rem 0;align-items:baseline}
.card>h3:first-child{margin-top:.1rem}.probe>.badge{justify-self:start}.probe .name{font-weight:600}.probe .what{overflow-wrap:anywhere}
dl.qa{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;margin:.4rem 0 .6rem 1rem;font-size:.9rem}
dl.qa dt{color:var(--soft)}dl.qa dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}
.diff .add{color:var(--good)}.diff .del{color:var(--bad)}
footer{margin-top:2.5rem;color:var(--soft);font-size:.85rem;border-top:1px solid var(--line);padding-top:.7rem}
@media (max-width:640px){main{padding:.7rem .6rem 2rem}h1{font-size:1.2rem}
ol.story>li{grid-template-columns:auto 1fr}ol.story .at{text-align:left}ol.story .what{grid-column:1/-1}
.probe{grid-template-columns:1fr auto}.gantt .axis span:nth-child(even),.gantt .axis span:nth-child(3){display:none}.probe .what{grid-column:1/-1}
.gantt{grid-template-columns:5.2em 1fr 4em;gap:.2rem .4rem}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--code:#f4f4f4;
--good:#1a7f37;--new:#0757ba;--bad:#c2222b;--warn:#8f5a00;--mute:#666}
body{font-size:11pt}main{max-width:none;padding:0}pre{max-height:none}.card,li,.probe{break-inside:avoid}
.gantt .bar,.badge{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";
}

}  // namespace millwright
