"""The page of trends as a template: one file, no script, nothing from elsewhere; light and dark by the reader's setting."""

TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{{ page.title }}</title>
<style>
:root { --back: #fff; --text: #1b1b1b; --soft: #666; --line: #ddd; --dot: #555; --band: #cfd8e3;
  --slower: #b34700; --faster: #00775a; --lost: #a1195b; --gained: #0060a0; }
@media (prefers-color-scheme: dark) {
  :root { --back: #15171a; --text: #e8e8e8; --soft: #a0a0a0; --line: #3a3d42; --dot: #b8bcc4; --band: #36404d;
    --slower: #ff9a52; --faster: #4fd1a5; --lost: #ff85b8; --gained: #6cb8ff; } }
body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1240px;
  padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2rem 0 0; } h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
p { margin: .3rem 0; } .soft, footer, .about { color: var(--soft); } .soft, .about { font-size: .85rem; }
a { color: inherit; } table { border-collapse: collapse; margin: .8rem 0; font-size: .9rem; }
th, td { text-align: left; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; } .scroll td { overflow-wrap: normal; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr)); gap: .8rem; }
figure { border: 1px solid var(--line); border-radius: 6px; margin: 0; padding: .5rem .6rem; min-width: 0; }
figcaption { font-size: .85rem; display: flex; flex-wrap: wrap; justify-content: space-between; column-gap: .6rem; }
figcaption b { font-weight: 600; } figcaption span { white-space: nowrap; }
svg { display: block; width: 100%; height: auto; } svg text { font-size: 10px; fill: var(--soft); }
.SLOWER { --mark: var(--slower); } .FASTER { --mark: var(--faster); } .LOST { --mark: var(--lost); }
.GAINED { --mark: var(--gained); }
.state { color: var(--mark, var(--soft)); font-weight: 600; white-space: nowrap; }
.a { stroke: var(--line); } .d { stroke: var(--dot); stroke-width: 3; stroke-linecap: round; fill: none; }
.m { stroke: var(--dot); fill: none; } .b { fill: var(--band); }
.v { stroke: var(--text); stroke-width: 1.5; } .v.SLOWER, .v.FASTER { stroke: var(--mark); }
.t { fill: var(--mark); } .f { stroke: var(--lost); fill: none; } .x { stroke: var(--mark); stroke-width: 2.2; fill: none; }
footer { border-top: 1px solid var(--line); margin-top: 2rem; font-size: .85rem; }
</style>
</head>
<body>
<h1>{{ page.title }}</h1>
<p>{{ page.extent }}</p>
<p><b>{{ page.conclusion }}.</b></p>
{% if page.rows %}
<div class="scroll"><table>
<tr><th></th><th>series</th><th>before</th><th>after</th><th></th><th>since</th></tr>
{% for row in page.rows %}
<tr><td class="state {{ row.card.verdict }}">{{ row.word }}</td>\
<td><a href="#{{ row.card.anchor }}">{{ row.name }}</a></td><td class="n">{{ row.before }}</td>\
<td class="n">{{ row.after }}</td><td class="n">{{ row.factor }}</td><td>{{ row.since }}</td></tr>
{% endfor %}
</table></div>
{% endif %}
{% if page.more %}<p class="soft">{{ page.more }} more below.</p>{% endif %}
{% for suite in page.suites %}
<h2>{{ suite.name }}</h2>
<p class="soft">{{ suite.machine }}</p>
{% for group in suite.groups %}
<h3>{{ group.name }}</h3>
<div class="charts">
{% for c in group.cards %}
<figure id="{{ c.anchor }}" class="{{ c.verdict }}">
<figcaption><b>{{ c.name }}</b><span><span class="state">{{ c.word }}</span> {{ c.newest }}</span></figcaption>
{% if c.drawn %}
<svg viewBox="0 0 330 100" role="img"><title>{{ c.name }}: {{ c.word }} {{ c.newest }}</title>
<path class="a" d="M54 6H326M54 80H326"/><text x="50" y="10" text-anchor="end">{{ c.high }}</text>\
<text x="50" y="83" text-anchor="end">{{ c.low }}</text>\
<text x="54" y="96">{{ c.first }}</text><text x="326" y="96" text-anchor="end">{{ c.last }}</text>
{% if c.drawn.band %}<path class="b" d="{{ c.drawn.band }}"/><path class="m" d="{{ c.drawn.line }}"/>\
{% else %}<path class="d" d="{{ c.drawn.dots }}"/>{% endif %}
{% if c.drawn.failures %}<path class="f" d="{{ c.drawn.failures }}"/>{% endif %}
{% for line in c.drawn.levels %}<path class="v {{ line.verdict }}" d="{{ line.path }}"/>{% endfor %}
{% for mark in c.drawn.marks %}<path class="{{ mark.shape }} {{ mark.verdict }}" d="{{ mark.path }}">\
<title>{{ mark.words }}</title></path>{% endfor %}
</svg>
{% endif %}
{% for text in c.turns %}<p class="about">{{ text }}</p>{% endfor %}
<p class="about">{{ c.about }}</p>
</figure>
{% endfor %}
</div>
{% endfor %}
{% endfor %}
<footer>
{% for note in page.notes %}<p>{{ note }}</p>
{% endfor %}
</footer>
</body>
</html>
"""
