/** Commands that developers and models run every day inside a repository, one per line. `\\n` is a line feed in those with a here-document. */
export const ordinaryCommands: readonly string[] = String.raw`
ls
ls -la
ls -la src
ls -R test | head -50
ls src/*.ts
ls -lh --sort=size
ls *.md
pwd
cd src && ls
cat README.md
cat package.json
cat -n src/index.ts
cat src/a.ts src/b.ts
cat src/index.ts | head -40
cat package.json | jq .scripts
head -n 20 README.md
head -50 src/main.ts
tail -n 100 CHANGELOG.md
tail -20 src/main.ts
wc -l src/index.ts
wc -l src/*.ts
find . -name '*.test.ts'
find . -type f -name "*.py" -not -path "./node_modules/*"
find src -type f | wc -l
find . -name '*.ts' | xargs wc -l
find . -name '*.ts' | xargs grep -l TODO
find . -name package.json -maxdepth 2
find . -type d -empty
find src -newer package.json
find . -size +1M
find . -type f -name '*.md' | sort
find . -name '*.go' -exec grep -l main {} +
find . -name '*.js' -exec wc -l {} \;
find . -iname '*readme*'
find test -mtime -1
grep -rn TODO src
grep -rn "export function" src --include=*.ts
grep -ri "deprecated" .
grep -c import src/index.ts
grep -v '^#' config.ini
grep -E "foo|bar" src/main.ts
grep -n -A 3 -B 3 error app.log
grep -l express package.json
grep -rn "/api/users" src
grep -o '"version": "[^"]*"' package.json
grep -w main src/*.c
grep -rL license src
rg TODO
rg -n "function main" src
rg -l useState
rg -i error -g '*.ts'
rg --files
rg --files | head -20
rg -t py "import os"
rg -c TODO src
rg -A 2 -B 2 panic
rg "foo\(" src test
rg -F "a.b(" src
rg --type ts "class \w+Error"
sed -n '1,50p' src/index.ts
sed -n '10,20p' README.md
sed -n 5p a.txt
sed 's/foo/bar/g' a.txt
sed -e 's/a/b/' -e '/^$/d' a.txt
sed '/^#/d' config.ini
sed -n '/start/,/end/p' app.log
sed 's|/usr|/opt|' paths.txt
sed -E 's/([0-9]+)/<\1>/g' a.txt
sed '$d' a.txt
sed 1d data.csv
sed 's/^[ \t]*//' a.txt
awk '{print $1}' data.txt
awk -F, '{print $2}' data.csv
awk -F: '{ print $1 }' names.txt
awk 'NR==10' a.txt
awk '{sum += $1} END {print sum}' numbers.txt
awk 'length($0) > 80' src/main.c
awk '/start/,/end/' app.log
awk '!seen[$0]++' a.txt
awk 'NR>1 {print $1, $3}' table.txt
awk '$3 > 100 {print $1}' table.txt
awk -v n=5 'NR<=n' a.txt
awk 'BEGIN {FS=","} {print NF}' data.csv
awk '/foo|bar/ {print $0}' a.txt
sort a.txt
sort -u a.txt
sort -k2 -n data.txt
sort -t, -k3 data.csv
sort a.txt | uniq -c | sort -rn | head
uniq -c a.txt
cut -d, -f1 data.csv
cut -d / -f 2 paths.txt
cut -c1-10 a.txt
tr a-z A-Z < a.txt
tr -d '\r' < a.txt
tr / _ < paths.txt
diff a.txt b.txt
diff -u old.ts new.ts
diff -r src lib
diff <(sort a.txt) <(sort b.txt)
comm -12 a.txt b.txt
join a.txt b.txt
paste -d, a.txt b.txt
nl a.txt
tac app.log | head
rev a.txt
fold -w 80 README.md
column -t table.txt
stat package.json
file logo.png
du -sh src
du -a test | sort -n | tail
df -h
tree -L 2
tree src -I node_modules
basename src/a/b.ts
dirname src/a/b.ts
realpath src
readlink link
date
date +%Y-%m-%d
echo hello
echo "done: $?"
printf '%s\n' a b c
seq 1 10
sleep 1
true
whoami
uname -a
which node
type git
command -v python3
test -f package.json && echo yes
[ -d src ] && ls src
[[ -f a.txt ]] && cat a.txt
if [ -f a.txt ]; then cat a.txt; fi
if grep -q foo a.txt; then echo found; else echo missing; fi
for f in src/*.ts; do wc -l "$f"; done
for f in a.txt b.txt; do echo "== $f"; head -5 "$f"; done
for i in 1 2 3; do echo $i; done
while read line; do echo "$line"; done < a.txt
case linux in linux) echo yes;; esac
set -e; ls; cat a.txt
set -euo pipefail
ls | wc -l
ls 2>/dev/null
ls src 2>&1 | head
cat a.txt || true
(cd src && ls)
{ ls; echo done; }
jq . package.json
jq '.dependencies | keys' package.json
jq -r .version package.json
jq -r '.scripts | to_entries[] | .key' package.json
jq --arg name vitest '.devDependencies[$name]' package.json
yq .name config.yaml
md5sum a.txt
sha256sum package-lock.json
base64 a.txt
xxd logo.png | head
od -c a.txt | head
hexdump -C logo.png | head -5
strings app.bin | head
cmp a.txt b.txt
git status
git status -s
git diff
git diff --stat
git diff HEAD~1 -- src
git diff --name-only main
git log --oneline -10
git log -p -1
git log --since=yesterday --author=me
git log --oneline --graph --all
git log -S foo --oneline
git show HEAD
git show HEAD:README.md
git show --stat HEAD~2
git branch --show-current
git branch -a
git blame src/index.ts
git blame -L 10,20 src/index.ts
git ls-files
git ls-files | grep test
git ls-files '*.ts' | xargs wc -l
git rev-parse HEAD
git rev-parse --abbrev-ref HEAD
git grep -n TODO
git grep -l useEffect -- '*.tsx'
git shortlog -sn
git describe --tags
git merge-base main HEAD
git cat-file -p HEAD
git rev-list --count HEAD
git --no-pager log -3
cat <<'E'\ntext\nE
fd '\.ts$' src
fd -e md
cat a.txt | tr -s ' ' | cut -d' ' -f2 | sort | uniq -c
grep -rn foo . | cut -d: -f1 | sort -u
find . -name '*.ts' | xargs cat | wc -l
ls -t | head -1
echo $((1 + 2))
expr 1 + 2
head -c 100 a.bin
zcat app.log.gz | head
xargs -n 1 echo < a.txt
timeout 5 grep -r foo .
time ls
env
git status && git diff
mkdir -p src/new
touch src/new.ts
cp a.txt b.txt
mv a.txt b.txt
rm a.txt
rm -rf dist
echo hello > a.txt
echo more >> a.txt
sed -i 's/foo/bar/' src/a.ts
cat > a.txt <<'E'\ntext\nE
sort -o a.txt a.txt
tee a.txt < b.txt
chmod +x run.sh
ln -s a.txt b.txt
tar czf dist.tgz dist
tar tzf dist.tgz
tar -tvf dist.tar src
git tag
for i in {1..5}; do echo "$i"; done
tar xzf a.tgz
unzip a.zip
gzip a.txt
git add .
git commit -m "Fix it"
git checkout -b topic
git push origin topic
git stash
git rebase main
npm test
npm run build
npm ci
npm install
npm install lodash
npx vitest run
yarn test
pnpm test
node script.js
node -e 'console.log(1)'
node --version
python3 script.py
python3 -c 'print(1)'
python3 -m pytest
pip install requests
pip list
cargo test
cargo build --release
go test ./...
go build ./...
go vet ./...
make
make test
tsc --noEmit
eslint src
prettier --check .
curl -s https://example.com
curl -I https://example.com
wget https://example.com/a.zip
docker ps
kill 1234
ps aux
`
  .trim()
  .split("\n")
  .map((line) => (line.includes("<<") ? line.replaceAll("\\n", "\n") : line));
