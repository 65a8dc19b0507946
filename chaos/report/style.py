"""The page's style sheet: a light and a dark theme, and one column where the screen is narrow."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b2330;--quiet:#5a6575;--line:#dde2e9;--soft:#eef1f5;
--held:#1a7f4b;--held-soft:#e3f5ea;--bad:#c02633;--bad-soft:#fdeaec;--missed:#a35c00;--missed-soft:#fff2dd;
--accent:#2a62c4;--area:#bcd2f5;--p50:#2a62c4;--p99:#b45cc0;--gap:rgba(220,60,70,.17)}
@media(prefers-color-scheme:dark){:root{--page:#10141a;--card:#191f28;--ink:#e7ebf1;--quiet:#9aa6b6;--line:#2c3542;
--soft:#222a35;--held:#5fd397;--held-soft:#15301f;--bad:#ff8088;--bad-soft:#3c1a1e;--missed:#f5b95c;
--missed-soft:#36280f;--accent:#86b0ff;--area:#2c466f;--p50:#86b0ff;--p99:#dc96e6;--gap:rgba(255,90,100,.22)}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:14px/1.45 system-ui,"Segoe UI",Roboto,"Liberation Sans",
"DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:14px 20px 60px}
h1{font-size:23px;margin:0;line-height:1.25;overflow-wrap:anywhere}h2{font-size:18px;margin:0 0 8px}
h3{font-size:12px;margin:0 0 4px;color:var(--quiet);text-transform:uppercase;letter-spacing:.05em;font-weight:600}
p{margin:0 0 6px}a{color:var(--accent)}
code,pre{font-family:ui-monospace,Consolas,"DejaVu Sans Mono",monospace;font-size:.92em}
.product{color:var(--quiet);font-size:12px;margin:0}.shape,.quiet,small{color:var(--quiet)}.shape{margin:2px 0 10px}
.bad{color:var(--bad);font-weight:600}
.banner{border-radius:8px;padding:10px 16px;border-left:6px solid;margin-bottom:10px;overflow-wrap:anywhere}
.banner h2{font-size:26px;margin:0;line-height:1.2}.banner p{margin:0;font-size:15px}
.banner.held{background:var(--held-soft);border-color:var(--held)}.held h2{color:var(--held)}
.banner.violated{background:var(--bad-soft);border-color:var(--bad)}.violated h2{color:var(--bad)}
.banner.missed{background:var(--missed-soft);border-color:var(--missed)}.missed h2{color:var(--missed)}
.banner.unknown{background:var(--soft);border-color:var(--quiet)}.unknown h2{color:var(--quiet)}
.cards{display:grid;grid-template-columns:minmax(280px,1fr) 2fr;gap:10px;margin-bottom:10px}
.card,.tile,.part{background:var(--card);border:1px solid var(--line);border-radius:8px}
.card{padding:10px 14px;overflow-wrap:anywhere}.card p{margin:0 0 2px}.bad-card{border-color:var(--bad)}
.big{font-size:25px;font-weight:650;line-height:1.2}
.tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:10px;margin-bottom:10px}
.tile{padding:8px 12px;display:flex;flex-direction:column;min-width:0}
.tile b{font-size:21px;line-height:1.2;color:var(--ink)}
.tile.bad{border-color:var(--bad);background:var(--bad-soft)}.tile.bad b{color:var(--bad)}
.tile span{font-weight:600}.tile small{font-weight:400;font-size:12px}
.kinds{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin-bottom:12px}.kinds h3{margin:0 6px 0 0}
.chip{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:14px;
padding:2px 10px;cursor:pointer}.chip[aria-pressed=true]{outline:2px solid var(--accent)}
.swatch{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.swatch.waits{background:#e0313d;height:4px;width:18px;vertical-align:3px}
.part{padding:14px 16px;margin-top:14px}
.timeline{position:relative;overflow:hidden}
.row{display:grid;grid-template-columns:168px minmax(0,1fr);align-items:center;border-top:1px solid var(--soft)}
.row:first-of-type,.row.ticks{border-top:0}
.label{padding:2px 8px 2px 0;font-size:13px;font-weight:600;line-height:1.25;overflow-wrap:anywhere}
.label small{display:block;font-weight:400;font-size:11.5px}.label .bad{font-size:11.5px}
.plot{min-width:0}.plot svg{display:block;overflow:hidden}.plot p{margin:4px 0}.none{color:var(--quiet)}
.legend p{font-size:12px;margin:5px 0 3px}.legend b{margin-left:12px}.legend b:first-child{margin-left:0}
svg text{font:11px system-ui,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif;fill:var(--quiet)}
svg text.in{fill:#12161c}.plot svg svg{pointer-events:none}
svg text.worst{fill:var(--bad);font-weight:700;font-size:12px;
paint-order:stroke;stroke:var(--card);stroke-width:3px}
svg text.value{paint-order:stroke;stroke:var(--card);stroke-width:3px}
svg path{fill:none;vector-effect:non-scaling-stroke;stroke-width:1.4}
svg .area{fill:var(--area);stroke:none}svg .line,svg .p50{stroke:var(--p50)}svg .p99{stroke:var(--p99)}
b.p50{color:var(--p50)}b.p99{color:var(--p99)}.level{stroke:var(--line);stroke-width:1;stroke-dasharray:2 4}
.gap{fill:var(--gap)}.violation,.unclean,.waiting,.lossy{fill:#e0313d}.election{fill:var(--accent)}
.leaderless{fill:none;stroke:#e0313d;stroke-width:1.5;stroke-dasharray:3 3}
rect[data-kind]{rx:2px}.filtering [data-kind]{opacity:.14}.filtering [data-kind].chosen{opacity:1}
tr.hidden,.finding.hidden{display:none}
.cross{position:absolute;top:0;bottom:0;width:1px;background:var(--quiet);pointer-events:none;z-index:1}
#tip{position:fixed;z-index:2;max-width:min(420px,92vw);background:var(--ink);color:var(--page);padding:6px 10px;
border-radius:6px;font-size:12.5px;pointer-events:none;white-space:pre-line;overflow-wrap:anywhere}
[hidden]{display:none!important}
.scroll{overflow-x:auto;margin-bottom:8px}table{border-collapse:collapse;width:100%}
th{text-align:left;color:var(--quiet);font-weight:600;font-size:12.5px}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--soft);vertical-align:top}td.number{white-space:nowrap}
#faults td:not(:nth-child(3)){white-space:nowrap}
.side{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:0 28px}
.finding{border-top:1px solid var(--soft);padding:6px 0}.finding summary{cursor:pointer}
.finding summary>*{margin-right:9px}.finding summary code{background:var(--soft);padding:1px 6px;border-radius:4px}
.finding p,.finding ol{margin:6px 0 6px 18px}.finding ol{padding-left:20px}.finding li{overflow-wrap:anywhere}
#violations .finding summary code{background:var(--bad-soft);color:var(--bad)}
input[type=search]{font:inherit;color:inherit;background:var(--page);border:1px solid var(--line);border-radius:6px;
padding:4px 10px;width:min(340px,100%);margin-bottom:8px}
pre{background:var(--soft);padding:10px 14px;border-radius:6px;overflow-x:auto;margin:0 0 8px}
@media(max-width:760px){main{padding:10px 10px 40px}
.cards{grid-template-columns:1fr}.tiles{grid-template-columns:1fr 1fr 1fr}
.banner{padding:8px 12px}.banner h2{font-size:22px}.row{grid-template-columns:1fr}.label{padding:4px 0 1px}
.label small{display:inline;margin-left:6px}.tick.odd{display:none}.side{grid-template-columns:1fr}

.part{padding:12px 10px}.tile{padding:6px 8px}.tile b{font-size:18px}.tile span{font-size:13px}
.tile small{display:none}#faults{min-width:660px}
#partitions{min-width:560px}#processes,#topics,#counts{min-width:520px}}
@media print{body{background:#fff}.part,.card,.tile{break-inside:avoid}}
"""
