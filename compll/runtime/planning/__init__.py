"""Which plan a model gets: measured costs, a simulated step, a search. Pure but for `probes`, `codec_probes`,
`group_probes` and `backward`, which measure, and `adapters`.

`curves` and `links` say what one operation costs, `work` what one message does, `jobs` what is to be synchronised,
`timeline` when everything happens, `search` which plan is best. Decides only; the runtime obeys the plan.
"""
