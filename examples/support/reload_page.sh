#!/usr/bin/env bash
# reload_page.sh PAGE: lets a page of a lesson load itself again as soon as this command is called for it once more.
# The page may not read files, but it may run a script that lies beside it, PAGE.js: this calls built() with a number.
set -euo pipefail
page=$1 number=$(date +%s%N) beside=$(basename "$1").js
script="<script>
function built(number) { if (number !== \"$number\") location.reload(); }
setInterval(() => {
  const script = document.createElement(\"script\");
  script.src = \"$beside?\" + Date.now();
  script.onload = script.onerror = () => script.remove();
  document.body.append(script);
}, 500);
</script>"
{
  sed "s/script-src 'unsafe-inline'/& 'self' file:/; /<\/body>/,\$d" "$page"
  printf '%s\n</body>\n</html>\n' "$script"
} >"$page.new"
mv "$page.new" "$page"
echo "built(\"$number\");" >"$page.js"
