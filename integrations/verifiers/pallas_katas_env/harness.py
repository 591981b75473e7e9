"""How a model is asked: its one answer is the submission, and it runs nothing itself."""

from __future__ import annotations

import verifiers.v1 as vf
from openai import AsyncOpenAI


class AskOnceConfig(vf.HarnessConfig):
    """Nothing to choose."""


class AskOnce(vf.Harness[AskOnceConfig]):
    """One request, one answer, from this process. The default: others have a shell here."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        _, prompt = self.resolve_text_prompt(data)
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            await client.chat.completions.create(
                model=ctx.model, messages=[{"role": "user", "content": prompt or ""}]
            )
        return vf.ProgramResult(0, "", "")
