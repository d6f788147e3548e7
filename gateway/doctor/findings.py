"""What a check has found, and what all findings together mean."""

from typing import Literal

import msgspec

Verdict = Literal["ok", "degraded", "broken", "skipped"]
# Who has to be mended. `between`: a proxy between the client and the gateway.
Fault = Literal["", "gateway", "upstream", "client", "between", "model"]

EXIT_CODES: dict[Verdict, int] = {"skipped": 0, "ok": 0, "degraded": 1, "broken": 2}
WHO: dict[Fault, str] = {
    "": "",
    "gateway": "the gateway",
    "upstream": "the model server",
    "client": "the client's setup",
    "between": "what stands between client and gateway",
    "model": "the model",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    Attributes:
        check: what was tried.
        verdict: how it went.
        fault: who is at fault; "" when nobody is.
        reason: what was seen.
        advice: what to do; "" when there is nothing.
    """

    check: str
    verdict: Verdict
    fault: Fault = ""
    reason: str = ""
    advice: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All findings."""

    url: str
    upstream: str
    model: str
    findings: list[Finding]

    @property
    def verdict(self) -> Verdict:
        """The worst one."""
        worst = max(self.findings, key=lambda finding: EXIT_CODES[finding.verdict], default=None)
        if worst is None or EXIT_CODES[worst.verdict] == 0:
            return "ok"
        return worst.verdict

    @property
    def faults(self) -> list[Fault]:
        """Whom the worst findings name, in their order."""
        worst = (f.fault for f in self.findings if f.verdict == self.verdict and f.fault)
        return list(dict.fromkeys(worst))

    @property
    def summary(self) -> str:
        """One sentence."""
        if self.verdict == "ok":
            return "All is well."
        who = " and ".join(WHO[fault] for fault in self.faults) or "something"
        state = "is broken" if self.verdict == "broken" else "could do better"
        return f"Look at {who}: it {state}."
